"""Observe, propose, authorise, act once, verify, across processes: the whole lifecycle through the services.

Each step asserts what must hold there; the same story with real processes stands in tests/e2e.
"""

from __future__ import annotations

from dataclasses import fields

import pytest
from django.contrib.auth.models import User

from cayu_review.services.membership import grant_role
from cayu_runtime import Actor
from cayu_runtime.core import engine
from cayu_runtime.errors import NotFound, NotPermitted
from cayu_runtime.models import Approval, EffectRecord, Proposal, Session, Tenant
from cayu_runtime.selectors import approval as approvals
from cayu_runtime.services.approval import decide_approval
from cayu_runtime.services.session import start_session
from cayu_runtime.services.tenant import create_tenant
from tests.reviewing import FIELDS, VERIFY, Operator, act, propose

pytestmark = pytest.mark.django_db(transaction=True)  # the recording tool writes from its own thread


def person(tenant: Tenant, name: str, *roles: str) -> Actor:
    user, _ = User.objects.get_or_create(username=name)
    for role in roles:
        grant_role(user, tenant, role)
    return Actor(f"user:{user.pk}", name, tenant.id, "web", roles)


def approve(tenant: Tenant, actor: Actor, approval: Approval) -> None:
    decide_approval(
        tenant,
        actor,
        approval.id,
        verdict="approve",
        version=approval.version,
        digest=approval.intent_digest.hex(),
        reason="reviewed exact proposal",
    )


def test_a_change_is_proposed_authorised_applied_once_and_verified_across_processes() -> None:
    tenant, elsewhere = create_tenant("demo-tenant", "Demo"), create_tenant("elsewhere", "Elsewhere")
    asker = person(tenant, "asker", "viewer")
    operator = Operator([propose()], [act(), VERIFY])
    text = "Observe the demo, diagnose drift, and propose a safe correction."
    session = start_session(tenant, asker, agent="operator", text=text, session_id="ops-demo")
    engine.run_session(session.id, "worker-1")

    # It stopped before the action ran.
    assert operator.system.operations == {}
    assert operator.system.timeline == []

    # One thing waits; what the queue shows has no arguments.
    waiting = approvals.waiting(tenant)
    assert len(waiting) == 1
    assert waiting[0].tool == "apply_change"
    assert not {"arguments", "fields"} & {column.name for column in fields(waiting[0])}
    assert approvals.waiting(elsewhere) == []

    # Beside it stands what was proposed for review, exactly.
    approval = Approval.objects.get(session=session)
    proposal = Proposal.objects.get(session=session)
    assert proposal.fields == FIELDS
    assert approval.call.proposal == proposal
    assert approval.call.operation_id == "change-0001"
    assert proposal.state == "open"

    # A replacement process finds nothing to do but to wait for the same approval.
    assert engine.run_session(session.id, "worker-2") is False
    session.refresh_from_db()
    assert (session.state, session.interruption) == ("interrupted", "approval_required")
    assert operator.system.operations == {}

    # Only a person of this tenant with the role may authorise it.
    with pytest.raises(NotPermitted):
        approve(tenant, asker, approval)
    with pytest.raises(NotPermitted):
        approve(tenant, person(elsewhere, "stranger", "approver"), approval)
    with pytest.raises(NotFound):
        approve(elsewhere, person(elsewhere, "stranger", "approver"), approval)
    assert operator.system.operations == {}
    approver = person(tenant, "operator@example.test", "approver")
    approve(tenant, approver, approval)
    assert operator.system.operations == {}
    engine.run_session(session.id, "worker-3")

    # The action ran once, then the separate check ran, then the model ended.
    receipt = {"action_id": "change-0001", "target": "demo", "status": "applied"}
    assert operator.system.operations == {"change-0001": {"target": "demo", "receipt": receipt}}
    assert operator.system.timeline == ["apply_started", "apply_finished", "verify"]
    assert len(operator.requests) == 3
    assert approvals.waiting(tenant) == []

    # What remains is durable: who decided, the receipt, the check, the end.
    again = Session.objects.get(tenant=tenant, session_id="ops-demo")
    assert again.state == "completed"
    approval.refresh_from_db()
    assert approval.state == "consumed"
    assert approval.decided_by is not None
    assert (approval.decided_by.actor, approval.decided_by.source) == (approver.subject, "web")
    assert approval.decided_by.reason == "reviewed exact proposal"
    effect = EffectRecord.objects.get(call=approval.call)
    assert (effect.operation_id, effect.state, effect.dispatches) == ("change-0001", "completed", 1)
    proposal.refresh_from_db()
    assert (proposal.state, proposal.used_by) == ("used", approval.call)
    results = {outcome.tool: outcome for outcome in operator.requests[-1].outcomes}
    assert results["apply_change"].details["structured"] == receipt
    assert results["verify_change"].details["structured"]["verified"] is True
