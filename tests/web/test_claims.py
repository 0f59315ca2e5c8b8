"""Who looks at what, on the pages: by a button, without scripts, and without a word that is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cayu_review.models import Claim
from cayu_runtime.core import clock
from cayu_runtime.models import Approval
from tests.web.office import Office

LOOK = "I am looking at this</button>"


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


@pytest.fixture
def asked(office: Office) -> Approval:
    return office.approval(office.ask())


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


@pytest.fixture
def erin(office: Office) -> Client:
    office.erin.first_name, office.erin.last_name = "Erin", "<Lee>"
    office.erin.save()
    return office.client(office.erin)


def address(approval: Approval, deed: str = "") -> str:
    return f"/approvals/{approval.pk}/{deed}"


def test_a_button_says_it_and_another_one_gives_it_back(asked: Approval, alice: Client) -> None:
    assert LOOK in text(alice.get(address(asked)))
    answer = alice.post(address(asked, "claim/"), {"version": "1", "digest": "", "reason": ""})
    assert (answer.status_code, answer["Location"]) == (302, address(asked))
    page = text(alice.get(address(asked)))
    assert "You are looking at this" in page
    assert LOOK not in page
    assert f'formaction="{address(asked, "release/")}"' in page
    until = Claim.objects.get().until
    assert f">{until:%H:%M} UTC</time>" in page
    assert alice.post(address(asked, "release/"))["Location"] == address(asked)
    assert LOOK in text(alice.get(address(asked)))


def test_a_colleague_sees_who_looks_and_decides_all_the_same(
    office: Office, asked: Approval, alice: Client, erin: Client
) -> None:
    erin.post(address(asked, "claim/"))
    page = text(alice.get(address(asked)))
    assert "Erin &lt;Lee&gt; is looking at this" in page
    assert "You can decide all the same." in page
    assert LOOK not in page
    assert "You can decide all the same." not in text(office.client(office.bob).get(address(asked)))
    refused = alice.post(address(asked, "claim/"))
    assert refused.status_code == 409
    assert "You are not marked as looking at this" in text(refused)
    assert "Erin &lt;Lee&gt; is looking at this until" in text(refused)
    assert alice.post(address(asked, "decide/"), office.form(asked, "approve")).status_code == 302
    page = text(erin.get(address(asked)))
    assert "looking at this" not in page
    assert "Approved by alice" in text(erin.post(address(asked, "claim/")))


def test_what_was_written_stays_written(office: Office, alice: Client) -> None:
    asked = office.approval(office.ask(("refund", {"order": "1042", "amount": 5}), editable=True))
    draft = {"version": "1", "digest": "x", "reason": "too <much>", "arguments": '{"order": "1042", "amount": 4}'}
    for deed in ("claim/", "release/"):
        answer = alice.post(address(asked, deed), draft)
        assert answer.status_code == 200
        assert "too &lt;much&gt;</textarea>" in text(answer)
        assert "&quot;amount&quot;: 4}</textarea>" in text(answer)
        assert Claim.objects.exists() == (deed == "claim/")
        assert "alert" not in text(answer)


def test_who_may_not_decide_has_no_button(office: Office, asked: Approval) -> None:
    for who in (office.bob, office.person("fred", office.north, "viewer")):
        client = office.client(who)
        assert LOOK not in text(client.get(address(asked)))
        assert client.post(address(asked, "claim/")).status_code == 403
        assert client.post(address(asked, "release/")).status_code == 403
    assert not Claim.objects.exists()


def test_what_waits_no_more_has_neither_word_nor_button(office: Office, asked: Approval, alice: Client) -> None:
    alice.post(address(asked, "claim/"))
    alice.post(address(asked, "decide/"), office.form(asked, "deny", reason="no"))
    page = text(alice.get(address(asked)))
    assert "looking at this" not in page
    assert alice.post(address(asked, "claim/")).status_code == 409


def test_the_forms_need_the_token_of_the_page(office: Office, asked: Approval) -> None:
    client = office.client(office.alice, enforce_csrf_checks=True)
    for deed in ("claim/", "release/"):
        assert client.post(address(asked, deed)).status_code == 403
    assert not Claim.objects.exists()


def test_the_queue_says_who_looks_at_what(office: Office, alice: Client, erin: Client) -> None:
    mine, theirs, over, free = (office.approval(office.ask(("refund", {"order": f"{n}"}))) for n in range(4))
    alice.post(address(mine, "claim/"))
    for approval in (theirs, over):
        erin.post(address(approval, "claim/"))
    Claim.objects.filter(approval=over).update(
        since=clock.now() - timedelta(hours=1), until=clock.now() - timedelta(seconds=1)
    )
    rows = {row.split('"')[0]: " ".join(row.split()) for row in alice.get("/").content.decode().split('id="r-')[1:]}
    assert "You are looking at this, until" in rows[str(mine.pk)]
    assert "Erin &lt;Lee&gt; is looking at this, until" in rows[str(theirs.pk)]
    assert "looking at this" not in rows[str(over.pk)]
    assert "looking at this" not in rows[str(free.pk)]


def test_a_claim_costs_no_query_per_row(office: Office, alice: Client) -> None:
    approvals = [office.approval(office.ask(("refund", {"order": f"{n}"}))) for n in range(6)]
    counts: list[int] = []
    for approval in approvals:
        alice.post(address(approval, "claim/"))
        with CaptureQueriesContext(connection) as queries:
            assert alice.get("/").content.count(b"You are looking at this") == len(counts) + 1
        counts.append(len(queries))
    assert len(set(counts)) == 1
