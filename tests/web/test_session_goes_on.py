"""Resuming a session, and going on with a message, from its page."""

from typing import Any

import pytest
from django.test import Client

from cayu_runtime.models import Event, Message, Session
from tests import rows
from tests.web.office import Office


@pytest.fixture
def bob(office: Office) -> Client:
    return office.client(office.bob)


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def stopped(office: Office) -> Session:
    session = office.ask()
    answer = office.client(office.bob).post(f"/sessions/{session.session_id}/stop/")
    assert answer.status_code == 302
    return session


def test_a_stopped_session_is_resumed(office: Office, bob: Client) -> None:
    session = stopped(office)
    assert "Resume session" in text(bob.get(f"/sessions/{session.session_id}/"))
    page = text(bob.post(f"/sessions/{session.session_id}/resume/", {"reason": "it was right"}, follow=True))
    assert "Resumed. A worker takes it up." in page
    assert "Ready to run" in page
    assert "Resume session" not in page
    assert Event.objects.get(type="session.resume_requested").payload["reason"] == "it was right"
    assert office.run(session).state == "completed"


def test_a_finished_session_goes_on_with_a_message(office: Office, bob: Client) -> None:
    session = office.ask(("look", {"order": "1"}), gated=())
    assert "Send message" in text(bob.get(f"/sessions/{session.session_id}/"))
    page = text(bob.post(f"/sessions/{session.session_id}/continue/", {"text": "and order 2"}, follow=True))
    assert "Message recorded. A worker takes it up." in page
    assert 'class="saying">and order 2' in page
    assert office.run(session).state == "completed"


def test_only_who_asked_sends_a_message(office: Office) -> None:
    session = office.ask(("look", {"order": "1"}), gated=())
    alice = office.client(office.alice)
    assert "Send message" not in text(alice.get(f"/sessions/{session.session_id}/"))
    answer = alice.post(f"/sessions/{session.session_id}/continue/", {"text": "my long thought"})
    assert answer.status_code == 403
    assert "my long thought" in text(answer)


def test_what_is_not_accepted_changes_nothing_and_keeps_the_words(office: Office, bob: Client) -> None:
    session = office.ask()
    before = Message.objects.count()
    assert "Send message" not in text(bob.get(f"/sessions/{session.session_id}/"))
    answer = bob.post(f"/sessions/{session.session_id}/continue/", {"text": "my long thought"})
    assert answer.status_code == 409
    assert "A round of calls is open" in text(answer)
    assert "my long thought" in text(answer)
    assert Message.objects.count() == before


def test_an_empty_message_gets_a_sentence(office: Office, bob: Client) -> None:
    session = office.ask(("look", {"order": "1"}), gated=())
    answer = bob.post(f"/sessions/{session.session_id}/continue/", {"text": "  "})
    assert answer.status_code == 400
    assert "the message is empty" in text(answer)


def test_what_nothing_stopped_is_not_resumed(office: Office, bob: Client) -> None:
    session = office.ask()
    assert "Resume session" not in text(bob.get(f"/sessions/{session.session_id}/"))
    answer = bob.post(f"/sessions/{session.session_id}/resume/")
    assert answer.status_code == 409
    assert "Nothing stopped this session" in text(answer)


@pytest.mark.parametrize("state", ["interrupted", "completed"])
def test_a_session_of_a_client_is_neither_resumed_nor_continued_here(state: str, office: Office, bob: Client) -> None:
    more = {"interruption": "client_execution"} if state == "interrupted" else {}
    values: dict[str, Any] = {"requester": f"user:{office.bob.pk}", "client_driven": True, **more}
    page = text(bob.get(f"/sessions/{rows.session(state, tenant=office.north, **values).session_id}/"))
    assert "Send message" not in page
    assert "Resume session" not in page


def test_a_message_that_was_kept_through_a_sign_in_stands_in_its_form(office: Office, client: Client) -> None:
    session = office.ask(("look", {"order": "1"}), gated=())
    address = f"/sessions/{session.session_id}/"
    refused = client.post(f"{address}continue/", {"text": "my long thought"})
    form = {"next": refused.context["next"], "draft": refused.context["draft"]}
    back = client.post("/accounts/login/", {**form, "username": "bob", "password": "bob's word"})
    assert back["Location"] == address
    assert "my long thought</textarea>" in text(client.get(address))
