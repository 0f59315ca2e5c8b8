"""Decisions sent by the page's form: what is recorded, what is said, where one is led; and each refusal."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from cayu_runtime.core import clock
from cayu_runtime.models import Approval, Decision, Event
from tests.web.office import Office


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


@pytest.fixture
def approval(office: Office) -> Approval:
    return office.approval(office.ask())


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def decide(client: Client, office: Office, approval: Approval, decision: str, /, **changed: Any) -> Any:
    return client.post(f"/approvals/{approval.id}/decide/", office.form(approval, decision, **changed))


def state(approval: Approval) -> str:
    return Approval.objects.get(pk=approval.pk).state


def test_approve_records_it_and_runs_nothing_yet(office: Office, alice: Client, approval: Approval) -> None:
    answer = decide(alice, office, approval, "approve", reason="looks right")
    assert answer.status_code == 302
    assert state(approval) == "approved"
    assert office.refund.count == 0
    decision = Decision.objects.get()
    assert (decision.verdict, decision.actor, decision.actor_name) == ("approve", f"user:{office.alice.pk}", "alice")
    assert (decision.source, decision.roles) == ("web", ["approver", "viewer"])
    assert (decision.version, decision.digest, decision.reason) == (1, approval.intent_digest, "looks right")


def test_the_toast_tells_the_durable_fact_and_leads_to_the_session(
    office: Office, alice: Client, approval: Approval
) -> None:
    page = text(alice.get(decide(alice, office, approval, "approve")["Location"]))  # UX 13
    assert "Approved. Not dispatched yet." in page
    assert f'<a href="/sessions/{approval.session.session_id}/">See what comes of it</a>' in page
    assert "Success" not in page
    other = office.approval(office.ask())
    page = text(alice.get(decide(alice, office, other, "deny", reason="no")["Location"]))
    assert "Denied. Nothing was sent." in page


def test_deny_needs_a_reason_and_tells_it_to_the_agent(
    office: Office, alice: Client, approval: Approval
) -> None:  # UX 17
    for empty in ("", "  \n "):
        answer = decide(alice, office, approval, "deny", reason=empty)
        assert answer.status_code == 400
        assert "Say why: a denial needs a reason" in text(answer)
        assert state(approval) == "pending"
    assert decide(alice, office, approval, "deny", reason="never paid").status_code == 302
    assert state(approval) == "denied"
    session = office.run(approval.session)
    page = text(alice.get(f"/sessions/{session.session_id}/"))
    assert "Denied by alice" in page
    assert "Reason: never paid" in page
    assert office.refund.count == 0


def test_the_next_item_that_this_person_can_decide_opens(office: Office, alice: Client) -> None:  # UX 13
    first, second, third = (office.approval(office.ask(expires_in=seconds)) for seconds in (1000, 2000, 3000))
    own = office.approval(office.ask(by=office.alice, expires_in=1500))
    assert decide(alice, office, first, "approve")["Location"] == f"/approvals/{second.id}/"
    assert decide(alice, office, third, "approve")["Location"] == f"/approvals/{second.id}/"
    assert decide(alice, office, second, "approve")["Location"] == "/"
    assert state(own) == "pending"


def test_the_same_answer_again_is_the_recorded_one(office: Office, alice: Client, approval: Approval) -> None:  # A5
    decide(alice, office, approval, "approve")
    session = office.run(approval.session)
    events = Event.objects.count()
    again = decide(alice, office, approval, "approve")
    assert again.status_code == 302
    assert "You had decided this already" in text(alice.get(again["Location"]))
    assert office.refund.count == 1
    assert Event.objects.count() == events
    assert session.state == "completed"


@pytest.mark.parametrize("winner, said", [("deny", "Denied by erin"), ("approve", "Approved by erin")])
def test_who_comes_second_is_told_who_decided_what_and_when(
    winner: str, said: str, office: Office, alice: Client, approval: Approval
) -> None:  # UX 9, A6
    decide(office.client(office.erin), office, approval, winner, reason="I was first")
    answer = decide(alice, office, approval, "deny" if winner == "approve" else "approve", reason="my own words")
    assert answer.status_code == 409
    page = text(answer)
    assert "Your decision was not recorded" in page
    assert f"{said} <time" in page
    assert "ago</time>" in page or "just now</time>" in page
    assert "I was first" in page
    assert "my own words" in page
    assert Decision.objects.count() == 1


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"version": 2}, "changed since this page was read"),
        ({"digest": "ab" * 32}, "digest is not that of the request"),
    ],
)
def test_a_stale_page_is_refused_and_the_words_stay_in_the_form(
    changed: dict[str, Any], said: str, office: Office, alice: Client, approval: Approval
) -> None:  # A7
    answer = decide(alice, office, approval, "approve", reason="my own words", **changed)
    assert answer.status_code == 409
    assert said in text(answer)
    assert ">my own words</textarea>" in text(answer)
    assert state(approval) == "pending"


def test_after_the_time_is_over_nothing_is_granted(office: Office, alice: Client, approval: Approval) -> None:  # A12
    now = clock.now()
    Approval.objects.filter(pk=approval.pk).update(
        created_at=now - timedelta(days=2), expires_at=now - timedelta(days=1)
    )
    approval.refresh_from_db()
    answer = decide(alice, office, approval, "approve", reason="late words")
    assert answer.status_code == 409
    assert "The time to decide ended" in text(answer)
    assert "Nobody decided in time. Nothing was sent." in text(answer)
    assert "late words" in text(answer)
    assert state(approval) == "expired"
    assert Event.objects.get(type="tool.call.approval_expired").payload["tried_by_name"] == "alice"


@pytest.mark.parametrize(
    "changed",
    [
        {"decision": "maybe"},
        {"decision": ""},
        {"version": ""},
        {"version": "one"},
        {"version": "-1"},
        {"version": "9" * 40},
        {"digest": ""},
        {"digest": "xyz"},
        {"digest": "ab"},
    ],
)
def test_a_form_that_is_not_the_pages_is_refused_in_words(
    changed: dict[str, Any], office: Office, alice: Client, approval: Approval
) -> None:  # A7
    answer = decide(alice, office, approval, "approve", **{"reason": "my own words", **changed})
    assert answer.status_code == 400
    assert "Your decision was not recorded" in text(answer)
    assert ">my own words</textarea>" in text(answer)
    assert state(approval) == "pending"


def test_own_requests_are_refused_by_the_server_too(office: Office, alice: Client) -> None:  # A22
    own = office.approval(office.ask(by=office.alice))
    for decision in ("approve", "deny"):
        answer = decide(alice, office, own, decision, reason="my own words")
        assert answer.status_code == 403
        assert "You asked for this yourself" in text(answer)
        assert "my own words" in text(answer)
    assert state(own) == "pending"


def test_a_superuser_cannot_approve_what_they_asked_for(office: Office) -> None:  # A22
    office.alice.is_superuser = True
    office.alice.save()
    own = office.approval(office.ask(by=office.alice))
    assert decide(office.client(office.alice), office, own, "approve").status_code == 403
    assert state(own) == "pending"


def test_a_viewer_cannot_decide(office: Office, approval: Approval) -> None:
    answer = decide(office.client(office.person("vic", office.north, "viewer")), office, approval, "approve")
    assert answer.status_code == 403
    assert "needs the role approver" in text(answer)
    assert state(approval) == "pending"


def test_a_long_reason_with_control_characters_is_kept_clean_and_bounded(
    office: Office, alice: Client, approval: Approval
) -> None:  # A25
    decide(alice, office, approval, "deny", reason="no\x07\x1b[31m " * 2000)
    kept = Decision.objects.get().reason
    assert len(kept) <= 2000
    assert "\x07" not in kept
    assert "\x1b" not in kept


def test_a_decided_request_shows_the_decision_in_place_of_the_form(
    office: Office, alice: Client, approval: Approval
) -> None:
    address = f"/approvals/{approval.id}/"
    decide(alice, office, approval, "approve", reason="looks right")
    page = text(alice.get(address))
    assert "Approved by alice. Not dispatched yet." in page
    assert "looks right" in page
    main = page.split("<main")[1].split("</main>")[0]
    assert re.findall(r'<form method="post" action="([^"]*)"', main) == [f"{address}revoke/"]
    assert main.count("<form") == 1
    office.run(approval.session)
    page = text(alice.get(address))
    assert "Approved by alice. Done, not verified." in page
    assert "<form" not in page.split("<main")[1].split("</main>")[0]


def test_two_requests_of_one_round_are_decided_each_for_itself(office: Office, alice: Client) -> None:
    session = office.ask(("refund", {"order": "1"}), ("look", {"order": "2"}), ("refund", {"order": "3"}))
    one, two = Approval.objects.filter(session=session).order_by("target")
    decide(alice, office, one, "deny", reason="no")
    page = text(alice.get(f"/sessions/{session.session_id}/"))
    assert "Denied by alice" in page
    assert "Allowed, not started yet" in page
    assert "Waits for approval" in page
    decide(alice, office, two, "approve")
    session = office.run(session)
    assert (session.state, office.refund.count, office.look.count) == ("completed", 1, 1)
