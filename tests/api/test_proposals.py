"""Proposals that a client records."""

from __future__ import annotations

from typing import Any

import pytest

from cayu_runtime.core import engine
from cayu_runtime.models import Event, Proposal, Session
from tests.api.clients import ApiClient, agent_client, person_client, problem
from tests.reviewing import FIELDS, Operator, act
from tests.web.office import Office


@pytest.fixture
def session(office: Office, agent: ApiClient) -> Session:
    """A session of an agent that asks for `change-0001` without having proposed it itself."""
    Operator([act()], name="clerk")
    answer = agent.post("sessions/", {"agent": "clerk", "text": "go", "session_id": "s-1"})
    return Session.objects.get(session_id=answer.json()["session_id"])


def proposal(**changed: Any) -> dict[str, Any]:
    return {"session_id": "s-1", "tool": "apply_change", "fields": FIELDS, **changed}


def test_a_client_records_a_proposal_once(session: Session, agent: ApiClient) -> None:
    first = agent.post("proposals/", proposal())
    assert (first.status_code, first.json()["state"], first.json()["fields"]) == (201, "open", FIELDS)
    again = agent.post("proposals/", proposal())
    assert (again.status_code, again.json()) == (200, first.json())
    assert agent.get("proposals/change-0001/").json() == first.json()
    assert Event.objects.filter(type="proposal.recorded").count() == 1
    problem(agent.post("proposals/", proposal(fields={**FIELDS, "target": "other"})), 409, "proposal_conflict")
    agent.post("sessions/", {"agent": "clerk", "text": "go", "session_id": "s-2"})
    problem(agent.post("proposals/", proposal(session_id="s-2")), 409, "proposal_conflict")


@pytest.mark.parametrize(
    "changed",
    [
        {"tool": "no_such_tool"},
        {"fields": {**FIELDS, "extra": 1}},
        {"fields": {"target": "demo", "reason": "routine"}},
        {"fields": {**FIELDS, "action_id": "op_1"}},
        {"fields": {**FIELDS, "action_id": 2**53}},
        {"fields": []},
        {"expires_in": 0},
        {"expires_in": "60"},
    ],
    ids=["tool", "extra", "without", "op", "number", "list", "no-time", "text"],
)
def test_what_is_no_proposal_is_refused(changed: dict[str, Any], session: Session, agent: ApiClient) -> None:
    problem(agent.post("proposals/", proposal(**changed)), 400, "invalid_request")
    assert not Proposal.objects.exists()


def test_only_for_sessions_of_its_person(session: Session, office: Office) -> None:
    problem(agent_client(office.alice, office.north).post("proposals/", proposal()), 403, "not_permitted")
    problem(person_client(office.alice).post("proposals/", proposal()), 403, "not_permitted")
    assert person_client(office.bob).post("proposals/", proposal()).status_code == 201


def test_it_counts_from_the_second_round_on(session: Session, agent: ApiClient) -> None:
    agent.post("proposals/", proposal())
    engine.run_session(session.pk, "worker-1")
    session.refresh_from_db()
    assert session.interruption != "approval_required"
    assert agent.get("proposals/change-0001/").json()["state"] == "open"


def test_they_are_listed_by_their_action(session: Session, agent: ApiClient) -> None:
    for number in (3, 1, 2):
        agent.post("proposals/", proposal(fields={**FIELDS, "action_id": f"change-000{number}"}))
    first = agent.get("proposals/", {"limit": 2}).json()
    second = agent.get("proposals/", {"limit": 2, "cursor": first["next"], "session_id": "s-1"}).json()
    ids = [row["action_id"] for row in first["results"] + second["results"]]
    assert ids == ["change-0001", "change-0002", "change-0003"]
    assert second["next"] is None
