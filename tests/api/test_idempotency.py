"""A request that is sent again is done once."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cayu_runtime.core import clock
from cayu_runtime.models import IdempotencyKey, Message, Session
from cayu_runtime.services import idempotency
from tests.api.clients import ApiClient, agent_client, problem
from tests.web.office import Office

START = {"agent": "desk", "text": "refund order 1042"}
KEY = {"Idempotency-Key": "6f1c"}


@pytest.fixture
def office(office: Office) -> Office:
    office.run(office.ask())
    Session.objects.filter(state="interrupted").update(session_id="before")
    return office


def started() -> int:
    return Session.objects.exclude(session_id="before").count()


def test_the_same_request_gives_the_same_answer_and_one_session(office: Office, agent: ApiClient) -> None:
    first = agent.post("sessions/", START, **KEY)
    office.run(Session.objects.get(session_id=first.json()["session_id"]))
    second = agent.post("sessions/", {"text": START["text"], "agent": "desk"}, **KEY)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.content == second.content
    assert "Idempotency-Replayed" not in first.headers
    assert second["Idempotency-Replayed"] == "true"
    assert started() == 1


def test_another_body_under_the_key_is_refused(office: Office, agent: ApiClient) -> None:
    agent.post("sessions/", START, **KEY)
    problem(agent.post("sessions/", {**START, "text": "refund order 7"}, **KEY), 422, "idempotency_conflict")
    session_id = Session.objects.exclude(session_id="before").get().session_id
    problem(agent.post(f"sessions/{session_id}/messages/", {"text": START["text"]}, **KEY), 422, "idempotency_conflict")
    assert started() == 1


def test_the_key_belongs_to_its_tenant_and_its_sender(office: Office, agent: ApiClient) -> None:
    clients = [
        agent,
        agent_client(office.bob, office.north),
        agent_client(office.carol, office.south),
    ]
    answers = [client.post("sessions/", START, **KEY).json()["session_id"] for client in clients]
    assert len(set(answers)) == 3


def test_what_was_refused_leaves_the_key_free(office: Office, agent: ApiClient) -> None:
    problem(agent.post("sessions/", {**START, "agent": "nobody"}, **KEY), 400, "invalid_request")
    taken = {**START, "session_id": "before"}
    problem(agent.post("sessions/", taken, **KEY), 409, "session_exists")
    assert not IdempotencyKey.objects.exists()
    assert agent.post("sessions/", START, **KEY).status_code == 202


def test_a_message_that_is_sent_again_is_added_once(office: Office, agent: ApiClient) -> None:
    agent.post("sessions/before/interrupt/")
    first = agent.post("sessions/before/messages/", {"text": "go on"}, **KEY)
    second = agent.post("sessions/before/messages/", {"text": "go on"}, **KEY)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json() == second.json()
    added = Message.objects.get(role="user", position__gt=0)
    assert first.json()["position"] == added.position


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "é"])
def test_an_unusable_key_is_refused(key: str, office: Office, agent: ApiClient) -> None:
    problem(agent.post("sessions/", START, **{"Idempotency-Key": key}), 400, "invalid_request")


def test_a_key_whose_time_is_over_means_nothing_and_is_swept(office: Office, agent: ApiClient) -> None:
    first = agent.post("sessions/", START, **KEY)
    with CaptureQueriesContext(connection) as queries:
        assert idempotency.forget_keys() == 0
    assert not [one for one in queries.captured_queries if one["sql"].startswith("DELETE")]
    before = clock.now() - idempotency.LIFETIME * 2
    IdempotencyKey.objects.update(created_at=before, expires_at=before + idempotency.LIFETIME)
    second = agent.post("sessions/", {**START, "text": "refund order 7"}, **KEY)
    assert second.status_code == 202
    assert second.json()["session_id"] != first.json()["session_id"]
    assert IdempotencyKey.objects.count() == 1
    IdempotencyKey.objects.update(created_at=before, expires_at=before + idempotency.LIFETIME)
    assert (idempotency.forget_keys(), IdempotencyKey.objects.count()) == (1, 0)
