"""What a session's page offers to do, what it waits for, and what it answers when it looks again."""

from typing import Any

import pytest
from django.test import Client

from cayu_runtime.core.lease import claim
from cayu_runtime.models import Event
from tests import rows
from tests.web.office import Office


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_it_says_what_it_waits_for_and_links_to_it(office: Office, alice: Client) -> None:
    session = office.ask(("refund", {"order": "1"}), ("refund", {"order": "2"}))
    page = text(alice.get(f"/sessions/{session.session_id}/"))
    assert "It goes on when an approver has decided." in page
    assert page.count(">Decide: Refund order") == 2
    assert f'href="/approvals/{office.approval(session).id}/">Decide' in page
    assert "Round 1, waits for people" in page


def test_an_unknown_outcome_is_linked_as_what_it_waits_for(office: Office, alice: Client) -> None:
    effect = office.unknown()
    page = text(alice.get(f"/sessions/{effect.session.session_id}/"))
    assert f'href="/effects/{effect.id}/">What is known: Refund order 1042</a>' in page
    assert "Evidence ends this; it is never sent again." in page
    assert "1 attempt<" in page


def test_a_question_is_told_where_one_is_open(office: Office, alice: Client) -> None:
    session = rows.session("interrupted", tenant=office.north, interruption="user_input_required")
    rows.question(call=rows.call("awaiting_answer", session=session), text="In full, or half?")
    page = text(alice.get(f"/sessions/{session.session_id}/"))
    assert "It goes on when a person has answered what it asks." in page
    assert "In full, or half?" in page


def test_the_timeline_tells_the_usage_of_each_model_step(office: Office, alice: Client) -> None:
    session = office.ask()
    told = Event.objects.get(session=session, type="model.completed").payload
    page = text(alice.get(f"/sessions/{session.session_id}/"))
    assert f"{told['usage']['input_tokens']} tokens in, {told['usage']['output_tokens']} out" in page


@pytest.mark.parametrize("name, may", [("alice", True), ("bob", True), ("erin", True), ("frank", False)])
def test_the_button_is_there_for_who_may_press_it(name: str, may: bool, office: Office) -> None:
    session = office.ask()
    person = getattr(office, name, None) or office.person(name, office.north, "viewer")
    client = office.client(person)
    assert ("Stop session" in text(client.get(f"/sessions/{session.session_id}/"))) == may
    answer = client.post(f"/sessions/{session.session_id}/stop/", {"reason": "my long thought"})
    assert answer.status_code == (302 if may else 403)
    assert may or b"my long thought" in answer.content
    session.refresh_from_db()
    assert (session.interruption == "operator_requested") == may


def test_a_stop_says_what_came_of_it_and_keeps_the_reason(office: Office, alice: Client) -> None:
    session = office.ask()
    answer = alice.post(f"/sessions/{session.session_id}/stop/", {"reason": "wrong customer"}, follow=True)
    page = text(answer)
    assert "Stopped. What had not begun was not sent." in page
    assert "Stopped by a person" in page
    assert "Stop session" not in page
    assert Event.objects.get(type="session.stop_requested").payload["reason"] == "wrong customer"
    assert office.refund.count == 0
    again = alice.post(f"/sessions/{session.session_id}/stop/")
    assert again.status_code == 302
    assert Event.objects.filter(type="session.stop_requested").count() == 1


def test_a_session_that_runs_stops_at_its_next_step(office: Office, alice: Client) -> None:
    session = office.ask()
    approval = office.approval(session)
    alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    assert claim(session.pk, "worker-1")
    page = text(alice.post(f"/sessions/{session.session_id}/stop/", follow=True))
    assert "Stop asked for. It stops at its worker&#x27;s next step." in page
    assert "Stopping" in page


def test_a_stop_leaves_an_unknown_outcome_to_evidence(office: Office, alice: Client) -> None:
    effect = office.unknown()
    page = text(alice.post(f"/sessions/{effect.session.session_id}/stop/", follow=True))
    assert "An outcome is unknown, so it still waits for evidence." in page


def test_a_session_that_has_ended_cannot_be_stopped(office: Office, alice: Client) -> None:
    session = office.ask(("look", {"order": "1"}), gated=())
    assert "Stop session" not in text(alice.get(f"/sessions/{session.session_id}/"))
    answer = alice.post(f"/sessions/{session.session_id}/stop/")
    assert answer.status_code == 409
    assert "This session is completed already; there is nothing to stop." in text(answer)


# ---- looking again ----


def test_a_page_that_looks_again_gets_nothing_until_something_moved(office: Office, alice: Client) -> None:
    session = office.ask()
    address = f"/sessions/{session.session_id}/"
    mark = text(alice.get(address)).split('data-live="')[1].split('"')[0]
    same = alice.get(address, headers={"X-Cayu-Live": mark})
    assert (same.status_code, same.content) == (204, b"")
    alice.post(f"{address}stop/")
    moved = alice.get(address, headers={"X-Cayu-Live": mark})
    assert moved.status_code == 200
    assert "Stopped by a person" in text(moved)
    assert "<title>Stopped by a person" in text(moved)
    assert "<html" not in text(moved)
    assert f'data-live="{mark}"' not in text(moved)


@pytest.mark.parametrize("address", ["/", "/reconcile/"])
def test_a_queue_that_looks_again_gets_its_list_and_counts_without_the_frame(
    address: str, office: Office, alice: Client
) -> None:
    office.unknown()
    office.ask()
    page = text(alice.get(address, headers={"X-Cayu-Live": "list"}))
    assert page.startswith("<title>1 to approve, 1 to reconcile")
    assert page.count('<li class="row') == 1
    assert "<html" not in page
    assert "data-live-list" in page


def test_looking_again_without_a_sign_in_leads_to_it(office: Office, client: Client) -> None:
    assert client.get("/", headers={"X-Cayu-Live": "list"}).status_code == 302
