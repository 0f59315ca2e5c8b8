"""The whole lifecycle over HTTP: an agent client starts and reads it, a person authorises exactly what was proposed.

The same story through the services stands in tests/conformance, with real processes in tests/e2e.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from cayu_review.services.membership import grant_role
from cayu_runtime.core import engine
from cayu_runtime.models import Session, Tenant
from cayu_runtime.services.tenant import create_tenant
from tests.api.clients import agent_client, person_client, problem
from tests.reviewing import FIELDS, VERIFY, Operator, act, propose

pytestmark = pytest.mark.django_db(transaction=True)  # the recording tool writes from its own thread


def person(tenant: Tenant, name: str, *roles: str) -> User:
    user = User.objects.create_user(name)
    for role in roles:
        grant_role(user, tenant, role)
    return user


def run(session_id: str, worker: str) -> None:
    engine.run_session(Session.objects.get(session_id=session_id).id, worker)


def test_a_change_is_proposed_authorised_applied_once_and_verified() -> None:
    tenant, elsewhere = create_tenant("demo-tenant", "Demo"), create_tenant("elsewhere", "Elsewhere")
    asker = person(tenant, "asker", "viewer")
    agent = agent_client(asker, tenant)
    operator = Operator([propose()], [act(), VERIFY])
    text = "Observe the demo, diagnose drift, and propose a safe correction."
    started = agent.post("sessions/", {"agent": "operator", "text": text, "session_id": "ops-demo"})
    assert started.status_code == 202
    run("ops-demo", "worker-1")

    # It stopped before the action ran, and says for what it waits.
    assert operator.system.operations == {}
    session = agent.get("sessions/ops-demo/").json()
    assert (session["state"], session["interruption"]) == ("interrupted", "approval_required")

    # One thing waits; what an agent client is told of it has no arguments.
    page = agent.get("pending-actions/").json()
    assert (len(page["results"]), page["issues"], page["next"]) == (1, [], None)
    (waiting,) = page["results"]
    assert (waiting["tool"], waiting["session_id"]) == ("apply_change", "ops-demo")
    assert not {"arguments", "target", "fields"} & set(waiting)
    stranger = person_client(person(elsewhere, "stranger", "approver"))
    assert stranger.get("pending-actions/").json()["results"] == []

    # Beside it stands what was proposed for review, exactly.
    approver = person_client(person(tenant, "operator@example.test", "approver"))
    call = approver.get(f"calls/{waiting['call']}/").json()
    assert (call["action_id"], call["operation_id"], call["arguments"]) == ("change-0001", "change-0001", FIELDS)
    proposal = approver.get(f"proposals/{call['action_id']}/").json()
    assert (proposal["fields"], proposal["state"], proposal["tool"]) == (FIELDS, "open", "apply_change")
    (approval,) = call["approvals"]

    # Only a person of this tenant with the role may authorise it.
    path = f"approvals/{approval['id']}/decide/"
    seen = {"version": approval["version"], "digest": approval["digest"], "reason": "reviewed exact proposal"}
    body = {"decision": "approve", **seen}
    problem(agent.post(path, body), 403, "not_permitted")
    problem(person_client(asker).post(path, body), 403, "not_permitted")
    problem(stranger.post(path, body), 404, "not_found")
    assert operator.system.operations == {}
    decided = approver.post(path, body).json()
    assert (decided["state"], decided["decision"]["reason"]) == ("approved", "reviewed exact proposal")
    assert operator.system.operations == {}
    run("ops-demo", "worker-3")

    # The action ran once, then the separate check ran, then the model ended.
    receipt = {"action_id": "change-0001", "target": "demo", "status": "applied"}
    assert operator.system.operations == {"change-0001": {"target": "demo", "receipt": receipt}}
    assert operator.system.timeline == ["apply_started", "apply_finished", "verify"]
    assert len(operator.requests) == 3
    assert approver.get("pending-actions/").json()["results"] == []

    # What remains is durable, and the agent client reads it: the end, the receipt, the check.
    assert agent.get("sessions/ops-demo/").json()["state"] == "completed"
    assert agent.get("sessions/ops-demo/messages/").json()["results"][-1]["text"] == "Change change-0001 is verified."
    effect = agent.get(f"calls/{waiting['call']}/effect/").json()
    assert (effect["operation_id"], effect["state"], effect["dispatches"]) == ("change-0001", "completed", 1)
    assert effect["receipt"]
    assert agent.get("proposals/change-0001/").json()["state"] == "used"
    assert agent.get(f"calls/{waiting['call']}/").json()["result"]["structured"] == receipt
    kinds = [event["type"] for event in agent.get("sessions/ops-demo/events/").json()["results"]]
    assert (kinds[0], kinds[-1]) == ("session.started", "session.completed")
    assert kinds.count("tool.call.approved") == 1
