"""A limit of the tenant, said to its clients: 429, which says that the same request can succeed later."""

from __future__ import annotations

from typing import Any

import pytest

from cayu_runtime.contracts import Actor
from cayu_runtime.models import IdempotencyKey, Session
from cayu_runtime.services.tenant import limit_tenant
from tests.api.clients import ApiClient, problem
from tests.web.office import Office

START = {"agent": "desk", "text": "refund order 1042"}


@pytest.fixture
def full(office: Office) -> Session:
    """North may have two sessions: one has ended, one waits, and one has just been started."""
    done = office.ask(("look", {"order": "1"}), gated=(), task="look")
    office.ask()
    office.ask()
    shell = Actor("shell:ops", "ops", office.north.id, "shell")
    limit_tenant(shell, office.north, {"max_running_sessions": 2}, reason="a small contract")
    return done


def refused(answer: Any) -> None:
    said = problem(answer, 429, "limit_reached")
    assert (said["limit"], said["most"]) == ("running_sessions", 2)
    assert "2 sessions of this tenant have not ended" in said["detail"]
    assert answer["Retry-After"] == "60"


def test_a_start_beyond_the_limit_can_be_sent_again_as_it_is(office: Office, full: Session, agent: ApiClient) -> None:
    key = {"Idempotency-Key": "k-1"}
    refused(agent.post("sessions/", START, **key))
    assert (Session.objects.count(), IdempotencyKey.objects.count()) == (3, 0)
    waiting = office.approval(Session.objects.filter(state="interrupted").latest("created_at"))
    office.client(office.alice).post(f"/approvals/{waiting.id}/decide/", office.form(waiting, "deny", reason="no"))
    office.run(waiting.session)
    assert agent.post("sessions/", START, **key).status_code == 202
    assert agent.post("sessions/", START, **key)["Idempotency-Replayed"] == "true"


def test_a_message_to_what_has_ended_is_refused_and_the_conversation_is_as_it_was(
    full: Session, agent: ApiClient
) -> None:
    before = full.messages
    refused(agent.post(f"sessions/{full.session_id}/messages/", {"text": "and 7"}))
    full.refresh_from_db()
    assert (full.messages, full.state) == (before, "completed")


def test_a_failed_session_is_not_resumed(full: Session, agent: ApiClient) -> None:
    Session.objects.filter(pk=full.pk).update(state="failed", failure="given up")
    refused(agent.post(f"sessions/{full.session_id}/resume/"))


def test_the_description_names_the_refusal(agent: ApiClient) -> None:
    paths = agent.client.get("/api/schema/").json()["paths"]
    for path in ("sessions/", "sessions/{session_id}/messages/", "sessions/{session_id}/resume/"):
        assert "`limit_reached`" in paths[f"/api/v1/{path}"]["post"]["responses"]["429"]["description"]
