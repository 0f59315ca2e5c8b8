"""Starting, reading and moving sessions over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cayu_runtime.models import Message, Session
from tests.api.clients import ApiClient, agent_client, person_client, problem
from tests.web.office import Office

START = {"agent": "desk", "text": "refund order 1042"}


@pytest.fixture
def office(office: Office) -> Office:
    office.ask()  # registers the agent `desk`
    return office


def test_a_started_session_is_runnable_at_once_and_is_its_persons_request(office: Office, agent: ApiClient) -> None:
    answer = agent.post("sessions/", {**START, "session_id": "s-1"})
    assert answer.status_code == 202
    assert answer["Cache-Control"] == "no-store"
    session = Session.objects.get(session_id="s-1")
    assert answer.json() == {
        "session_id": "s-1",
        "agent": "desk",
        "state": "pending",
        "created_at": session.created_at.isoformat().replace("+00:00", "Z"),
    }
    assert (session.tenant, session.state) == (office.north, "pending")
    assert session.runnable_at is not None
    assert (session.requester, session.requester_name) == (f"user:{office.bob.pk}", "bob")
    started = session_events(agent, "s-1")[0]["payload"]
    assert started["by"].startswith("token:")
    assert started["source"] == "api"
    assert agent.get("sessions/s-1/").json()["state"] == "pending"


def session_events(client: ApiClient, session_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"sessions/{session_id}/events/").json()["results"]
    return found


def test_a_session_id_is_taken_once(agent: ApiClient) -> None:
    agent.post("sessions/", {**START, "session_id": "s-1"})
    problem(agent.post("sessions/", {**START, "session_id": "s-1"}), 409, "session_exists")


@pytest.mark.parametrize(
    "body, field",
    [
        ({"text": "x"}, "agent"),
        ({"agent": "desk"}, "text"),
        ({"agent": "desk", "text": ""}, "text"),
        ({"agent": "desk", "text": 7}, "text"),
        ({"agent": ["desk"], "text": "x"}, "agent"),
        ({"agent": "desk", "text": "x" * 32_001}, "text"),
        ({"agent": "desk", "text": "a\0b"}, "text"),
        ({"agent": "desk", "text": "x", "session_id": "a/b"}, "session_id"),
        ({"agent": "desk", "text": "x", "session_id": ".."}, "session_id"),
        ({"agent": "desk", "text": "x", "model": "gpt"}, "model"),
        ({"agent": "desk", "text": "x", "requester": "user:1"}, "requester"),
        ({"agent": "desk", "text": "x", "tenant": "south"}, "tenant"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_body_that_does_not_fit_is_refused_by_field(body: dict[str, Any], field: str, agent: ApiClient) -> None:
    before = Session.objects.count()
    said = problem(agent.post("sessions/", body), 400, "invalid_request")
    assert [wrong["field"] for wrong in said["errors"]] == [field]
    assert Session.objects.count() == before


def test_identity_in_a_body_is_refused_with_a_sentence(agent: ApiClient) -> None:
    said = problem(agent.post("sessions/", {**START, "actor": "user:1"}), 400, "invalid_request")
    assert "come from your token or sign-in" in said["detail"]


def test_an_unknown_agent_is_refused_and_the_known_ones_are_named(agent: ApiClient) -> None:
    said = problem(agent.post("sessions/", {"agent": "nobody", "text": "x"}), 400, "invalid_request")
    assert "desk" in said["detail"]


def test_lists_are_paged_by_an_opaque_cursor_without_counting(office: Office, agent: ApiClient) -> None:
    for number in range(5):
        agent.post("sessions/", {**START, "session_id": f"s-{number}"})
    seen: list[str] = []
    cursor: str | None = ""
    with CaptureQueriesContext(connection) as queries:
        while cursor is not None:
            page = agent.get("sessions/", {"limit": 2, "cursor": cursor}).json()
            seen += [row["session_id"] for row in page["results"]]
            cursor = page["next"]
    assert len(seen) == len(set(seen)) == 6
    assert seen[:5] == [f"s-{number}" for number in (4, 3, 2, 1, 0)]
    assert not [one for one in queries.captured_queries if "COUNT(" in one["sql"] or "OFFSET" in one["sql"]]


def test_lists_are_filtered(office: Office, agent: ApiClient) -> None:
    agent.post("sessions/", {**START, "session_id": "s-1"})

    def found(**query: str) -> list[str]:
        return [row["session_id"] for row in agent.get("sessions/", query).json()["results"]]

    assert found(state="pending") == ["s-1"]
    assert len(found(interruption="approval_required")) == 1
    assert len(found(agent="desk")) == 2
    assert found(agent="other") == []
    assert found(state="completed") == []


@pytest.mark.parametrize(
    "query",
    [
        {"state": "lost"}, {"interruption": "x"}, {"limit": "0"}, {"limit": "201"}, {"limit": "a"}, {"cursor": "é"},
        {"cursor": "AAAA"}, {"cursor": "MDAwMS0wMS0wMVQwMDowMDowMCswMDowMH4wMDA"}, {"offset": "1"}, {"tenant": "north"},
    ],
    ids=lambda query: next(iter(query)),
)  # fmt: skip
def test_a_query_that_does_not_fit_is_refused(query: dict[str, str], agent: ApiClient) -> None:
    problem(agent.get("sessions/", query), 400, "invalid_request")


def test_events_are_read_from_a_number_on(office: Office, agent: ApiClient) -> None:
    session = Session.objects.get()
    all_of_them = agent.get(f"sessions/{session.session_id}/events/").json()
    assert [event["seq"] for event in all_of_them["results"]] == list(range(1, session.last_seq + 1))
    assert all_of_them["next"] is None
    first = agent.get(f"sessions/{session.session_id}/events/", {"limit": 2}).json()
    assert first["next"] == 2
    rest = agent.get(f"sessions/{session.session_id}/events/", {"after": 2}).json()
    assert first["results"] + rest["results"] == all_of_them["results"]
    assert agent.get(f"sessions/{session.session_id}/events/", {"after": 2**53 - 1}).json()["results"] == []
    problem(agent.get(f"sessions/{session.session_id}/events/", {"after": 2**63}), 400, "invalid_request")


def test_the_transcript_is_read_in_order_with_its_texts(office: Office, agent: ApiClient) -> None:
    session = Session.objects.get()
    page = agent.get(f"sessions/{session.session_id}/messages/").json()
    assert [(row["position"], row["role"], row["text"]) for row in page["results"]] == [
        (0, "user", "refund order 1042"),
        (1, "model", ""),
    ]
    assert agent.get(f"sessions/{session.session_id}/messages/", {"limit": 1}).json()["next"] == 0
    assert agent.get(f"sessions/{session.session_id}/messages/", {"after": 1}).json()["results"] == []


def test_a_message_while_an_approval_is_pending_is_refused_and_changes_nothing(  # A21
    office: Office, agent: ApiClient
) -> None:
    session = Session.objects.get()
    before = (Message.objects.count(), session.last_seq, session.updated_at)
    problem(agent.post(f"sessions/{session.session_id}/messages/", {"text": "hurry"}), 409, "not_accepting")
    session.refresh_from_db()
    assert (Message.objects.count(), session.last_seq, session.updated_at) == before


def test_a_stopped_session_goes_on_with_a_message(office: Office, agent: ApiClient) -> None:
    session = Session.objects.get()
    stopped = agent.post(f"sessions/{session.session_id}/interrupt/", {"reason": "wait"})
    assert (stopped.status_code, stopped.json()["interruption"]) == (200, "operator_requested")
    answer = agent.post(f"sessions/{session.session_id}/messages/", {"text": "Now the other one."})
    assert answer.status_code == 202
    position = answer.json()["position"]
    assert answer.json() == {"session_id": session.session_id, "position": position}
    assert Message.objects.get(session=session, position=position).role == "user"
    session.refresh_from_db()
    assert (session.state, session.stopped_by) == ("pending", None)
    assert office.run(session).interruption == "approval_required"  # the agent asks anew


def test_a_stopped_session_is_resumed_and_a_waiting_one_is_not(office: Office, agent: ApiClient) -> None:
    session = Session.objects.get()
    said = problem(agent.post(f"sessions/{session.session_id}/resume/"), 409, "not_resumable")
    assert "approval_required" in said["detail"]
    agent.post(f"sessions/{session.session_id}/interrupt/")
    resumed = agent.post(f"sessions/{session.session_id}/resume/", {"reason": "go on"})
    assert (resumed.status_code, resumed.json()["state"], resumed.json()["stopped_by"]) == (200, "pending", None)


def test_who_did_not_ask_for_a_session_cannot_speak_in_it(office: Office) -> None:
    """Else an approver could have an agent ask for what they then approve."""
    session = Session.objects.get()
    for client in (person_client(office.alice), agent_client(office.alice, office.north)):
        answer = client.post(f"sessions/{session.session_id}/messages/", {"text": "refund 9 as well"})
        problem(answer, 403, "not_permitted")
    assert agent_client(office.erin, office.north).post(f"sessions/{session.session_id}/interrupt/").status_code == 403
    assert person_client(office.erin).post(f"sessions/{session.session_id}/interrupt/").status_code == 200
