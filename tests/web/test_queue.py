"""The two queues as lists: order, counts, pages, and what an empty one says."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cayu_runtime.contracts import Actor
from cayu_runtime.core import clock
from cayu_runtime.models import Approval, Event
from cayu_runtime.services.pause import pause_dispatch
from tests.web.office import Office


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def title(answer: Any) -> str:
    return text(answer).split("<title>")[1].split("</title>")[0].strip()


def many(office: Office, count: int) -> list[Approval]:
    """Waiting approvals, the first to expire first."""
    calls = [("refund", {"order": f"o{number}"}) for number in range(min(count, 30))]
    while Approval.objects.count() < count:
        office.ask(*calls[: count - Approval.objects.count()])
    waiting = list(Approval.objects.order_by("id"))
    for number, approval in enumerate(waiting):
        Approval.objects.filter(pk=approval.pk).update(
            expires_at=approval.created_at + timedelta(days=1, minutes=number)
        )
    return waiting


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


def test_a_row_answers_without_being_opened(office: Office, alice: Client) -> None:  # UX 2
    office.ask(task="refund order 1042 because damaged", expires_in=7800)
    page = text(alice.get("/"))
    for fact in ("Refund order 1042</a>", "because damaged", "desk", "bob", "External", " left</time>", "just now"):
        assert fact in page


def test_soonest_to_expire_stands_first(office: Office, alice: Client) -> None:
    for order, seconds in (("late", 9000), ("soon", 60), ("between", 600)):
        office.ask(("refund", {"order": order}), expires_in=seconds)
    assert [row.target for row in alice.get("/").context["rows"]] == ["soon", "between", "late"]


def test_counts_stand_in_the_tabs_and_in_the_title(office: Office, alice: Client) -> None:  # UX 1
    office.unknown()
    office.ask()
    page = alice.get("/")
    assert title(page) == "1 to approve, 1 to reconcile, 0 to answer · Cayu"
    assert title(alice.get("/reconcile/")) == title(page)
    assert 'To approve <span class="count">1</span>' in text(page)


@pytest.mark.parametrize("count, said", [(99, "99"), (100, "99+"), (130, "99+")])
def test_counts_are_exact_to_99(count: int, said: str, office: Office, alice: Client) -> None:
    many(office, count)
    assert title(alice.get("/")).startswith(f"{said} to approve")


def test_pages_of_fifty_by_key_miss_nothing_and_repeat_nothing(office: Office, alice: Client) -> None:
    waiting = many(office, 120)
    Approval.objects.filter(pk__in=[a.pk for a in waiting[40:60]]).update(
        expires_at=waiting[40].created_at + timedelta(days=2)
    )
    seen, address, sizes = [], "/", []
    while address:
        page = alice.get(address)
        seen += [row.id for row in page.context["rows"]]
        sizes.append(len(page.context["rows"]))
        address = f"/?{page.context['next']}" if page.context["next"] else ""
        assert not address or address.replace("&", "&amp;") in page.content.decode().replace('href="?', 'href="/?')
    assert sizes == [50, 50, 20]
    assert len(set(seen)) == 120


def test_a_page_past_the_end_says_so(office: Office, alice: Client) -> None:
    many(office, 50)
    page = alice.get("/")
    beyond = alice.get(f"/?{page.context['next']}")
    assert "There is nothing more on this page" in text(beyond)
    assert "First page" in text(beyond)


@pytest.mark.parametrize(
    "after", ["", "x", "2026-11-30~", "2026-11-30T12:00:00~x", "2026-99-30T12:00:00+00:00~x", "~", "\0"]
)
@pytest.mark.parametrize("address", ["/", "/reconcile/", "/sessions/"])
def test_a_malformed_address_of_a_page_is_refused(address: str, after: str, alice: Client) -> None:
    assert alice.get(address, {"after": after}).status_code == 400


def test_a_page_costs_the_same_queries_at_3_and_at_60_rows(office: Office, alice: Client) -> None:  # D10
    counts = {}
    for count in (3, 60):
        many(office, count)
        with CaptureQueriesContext(connection) as queries:
            assert len(alice.get("/").context["rows"]) == min(count, 50)
        counts[count] = len(queries)
        statements = " ".join(query["sql"].upper() for query in queries)
        assert "COUNT(" not in statements
        assert "OFFSET" not in statements
    assert counts[3] == counts[60] <= 11


def test_a_pause_is_told_to_those_who_wait(office: Office, alice: Client) -> None:  # DESIGN §8
    shell = Actor("shell:ops", "ops", None, "shell")
    pause_dispatch(shell, reason="the bank is down", tool="refund")
    session = office.ask()
    for address in ("/", "/reconcile/", f"/sessions/{session.session_id}/"):
        page = text(alice.get(address))
        assert "Dispatch is paused</strong> for the tool <code>refund</code>, by ops" in page
        assert "the bank is down" in page
    approval = office.approval(session)
    alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    office.run(session)
    assert office.refund.count == 0
    assert "Held back: dispatch is paused" in text(alice.get(f"/sessions/{session.session_id}/"))
    pause_dispatch(shell, reason="only there", tenant=office.south)
    assert "only there" not in text(alice.get("/"))


def test_own_requests_are_marked(office: Office, alice: Client) -> None:
    office.ask(by=office.alice)
    assert "your own" in text(alice.get("/"))
    assert "your own" not in text(office.client(office.erin).get("/"))


def test_the_end_is_amber_and_what_is_over_is_grey(office: Office, alice: Client) -> None:  # UX 11
    for order, seconds in (("over", 60), ("near", 600), ("ample", 86400)):
        office.ask(("refund", {"order": order}), expires_in=seconds)
    now = clock.now()
    Approval.objects.filter(target="over").update(
        created_at=now - timedelta(days=1), expires_at=now - timedelta(seconds=1)
    )
    Approval.objects.filter(target="near").update(
        created_at=now - timedelta(days=1), expires_at=now + timedelta(minutes=5)
    )
    page = text(alice.get("/"))
    assert '<li class="row over"' in page
    assert 'class="left over"' in page
    assert "time is over" in page
    assert 'class="left near"' in page
    assert 'class="left ample"' in page
    assert f'datetime="{now.year}-' in page


def test_an_empty_queue_tells_the_truth(office: Office, alice: Client) -> None:  # UX 18
    page = text(alice.get("/"))
    assert "Nothing waits for you." in page
    assert "Nothing has been decided here yet. No session is running." in page
    session = office.ask()
    approval = office.approval(session)
    office.client(office.erin).post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    page = text(alice.get("/"))
    assert "Nothing waits for you." in page
    assert "Last decision" in page
    assert "by erin" in page
    assert "1 session running." in page


def test_the_other_queue_lists_what_nobody_knows(office: Office, alice: Client) -> None:
    effect = office.unknown(task="refund order 1042 and lose the answer")
    page = text(alice.get("/reconcile/"))
    assert f'href="/effects/{effect.id}/"' in page
    assert "Refund order 1042</a>" in page
    assert "Outcome unknown" in page
    assert "none is sent before that is known" in page
    main = page.split("<main")[1].split("</main>")[0]
    assert "<form" not in main


def test_the_other_queue_empty(alice: Client) -> None:
    assert "Nothing to reconcile." in text(alice.get("/reconcile/"))


def test_hidden_characters_of_a_model_are_written_out_in_the_list(office: Office, alice: Client) -> None:
    office.ask(("refund", {"order": "10\u202e42"}), task="refund <b>10\u200b42</b>")
    page = alice.get("/").content.decode()
    assert r"Refund order 10\u202e42" in page
    assert "refund &lt;b&gt;1042&lt;/b&gt;" in page  # a person's text is cleaned when it is taken
    assert "\u202e" not in page
    assert "\u200b" not in page


def test_the_list_reads_no_events(office: Office, alice: Client) -> None:
    office.ask()
    with CaptureQueriesContext(connection) as queries:
        alice.get("/")
    assert not any(Event._meta.db_table in query["sql"] for query in queries)
