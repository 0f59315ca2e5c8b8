"""Limits of the tenant, said to people."""

from __future__ import annotations

from typing import Any

import pytest

from cayu_review.permissions import MembershipAuthority
from cayu_review.services.membership import grant_role
from cayu_runtime import Permit
from cayu_runtime.contracts import Actor
from cayu_runtime.models import Session
from cayu_runtime.services.tenant import limit_tenant
from tests import rows
from tests.web.office import Office


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def limit(office: Office, **limits: int) -> None:
    shell = Actor("shell:ops", "ops", office.north.id, "shell")
    limit_tenant(shell, office.north, limits, reason="a small contract")


def test_a_start_beyond_the_limit_says_so_and_keeps_the_form(office: Office) -> None:
    office.ask()
    limit(office, max_running_sessions=1)
    form = {"agent": "desk", "text": "refund order 7\nbecause <late>", "session_id": "s-of-the-form"}
    answer = office.client(office.bob).post("/start/", form)
    assert answer.status_code == 429
    page = answer.content.decode()
    assert "Nothing was started" in page
    assert "One session of this tenant has not ended" in page
    assert "refund order 7\nbecause &lt;late&gt;</textarea>" in page
    assert 'value="desk" checked' in page
    assert Session.objects.count() == 1


def test_the_form_that_took_the_last_place_sent_twice_leads_to_its_session(office: Office) -> None:
    office.ask(("look", {"order": "1"}), gated=())
    limit(office, max_running_sessions=1)
    client = office.client(office.bob)
    form = {"agent": "desk", "text": "look", "session_id": "s-of-the-form"}
    assert client.post("/start/", form).status_code == 302
    again = client.post("/start/", form)
    assert again.status_code == 409
    assert "This form has started a session already" in text(again)


def test_a_message_beyond_the_limit_is_kept_on_the_page(office: Office) -> None:
    done = office.ask(("look", {"order": "1"}), gated=())
    office.ask()
    limit(office, max_running_sessions=1)
    answer = office.client(office.bob).post(f"/sessions/{done.session_id}/continue/", {"reason": "and order 8"})
    assert answer.status_code == 409
    assert "has not ended" in text(answer)
    assert "and order 8" in text(answer)


def test_the_page_says_whose_limit_stopped_a_session_and_what_resuming_does(office: Office) -> None:
    session = rows.session(
        "interrupted", tenant=office.north, interruption="limit_reached", stopped_by="limit_reached", last_seq=1
    )
    said = "9 model steps were taken; the limit of this tenant is 9."
    rows.event(session=session, type="session.limit_reached", payload={"v": 1, "reason": said})
    page = text(office.client(office.bob).get(f"/sessions/{session.session_id}/"))
    assert f"<p>{said}</p>" in page
    assert "its steps then count anew" in page


def test_a_call_that_may_not_ask_says_why(office: Office) -> None:
    limit(office, max_pending_approvals=1)
    office.ask()
    session = office.ask(task="another")
    page = text(office.client(office.bob).get(f"/sessions/{session.session_id}/"))
    assert "Not asked: too many requests of this agent wait already" in page


@pytest.mark.parametrize(
    "name, source, permitted",
    [
        ("ann", "web", True),
        ("ann", "api", False),
        ("alice", "web", False),
        ("carol", "web", False),
        ("ops", "shell", True),
    ],
)
def test_limits_are_set_by_administrators_and_at_a_shell(
    name: str, source: str, permitted: bool, office: Office
) -> None:
    people = {"ann": office.person("ann", office.north, "administrator"), "alice": office.alice, "carol": office.carol}
    grant_role(office.carol, office.south, "administrator")
    subject = f"user:{people[name].pk}" if name in people else "shell:ops"
    where = office.south if name == "carol" else office.north
    answer = MembershipAuthority().may(Actor(subject, name, where.id, source), "limit_tenant", office.north)
    assert isinstance(answer, Permit) == permitted
