"""What becomes of a proposal with its call, and of a call whose proposal is no longer what the policy read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from cayu_runtime import PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, Reviewed, ToolEffect
from cayu_runtime.core import canonical, clock
from cayu_runtime.errors import ProposalConflict
from cayu_runtime.models import Approval, EffectRecord, Proposal, Session, ToolCall, ToolRound
from cayu_runtime.services.session import interrupt_session
from cayu_runtime.worker import sweep
from tests import rows
from tests.machine import Machine
from tests.reviewing import FIELDS, Operator, act, actions, proposal, propose, reason, reviewed_with, waiting

pytestmark = pytest.mark.django_db(transaction=True)  # the recording tool writes from its own thread


@pytest.fixture
def machine(transactional_db: None, settings: Settings) -> Machine:
    settings.CAYU_AUTHORITY = "tests.machine.Everybody"
    return Machine()


# ---- withdrawn and expired ----


def test_a_denied_action_withdraws_its_proposal(machine: Machine) -> None:
    operator = Operator([propose()], [act()], [act()])
    session, approval = waiting(machine, operator)
    machine.decide(approval, "deny")
    machine.run(session)
    assert (proposal().state, proposal().reason) == ("withdrawn", "Denied by bob. Reason: seen")
    again = actions(machine, session)[1]
    assert (again.state, again.reason) == ("blocked", "policy")
    assert "is withdrawn. Propose under a new action_id." in reason(again)
    assert (operator.apply.count, session.state) == (0, "completed")


def test_a_stopped_session_withdraws_what_its_calls_were_bound_to(machine: Machine) -> None:
    session, _ = waiting(machine, Operator([propose()], [act()]))
    interrupt_session(machine.tenant, machine.alice, session.session_id, reason="not now")
    assert proposal().state == "withdrawn"
    assert "proposal.withdrawn" in machine.events(session)


def test_an_approval_that_ran_out_withdraws_its_proposal(machine: Machine) -> None:
    operator = Operator([propose()], [act()], policy=reviewed_with(expires_in=5))
    waiting(machine, operator)
    with clock.shifted(timedelta(seconds=6)):
        assert sweep.expire_due() == 1
    assert proposal().state == "withdrawn"
    assert operator.apply.count == 0


def test_a_proposal_whose_time_is_over_is_expired_by_the_sweep_with_the_approval_bound_to_it(machine: Machine) -> None:
    operator = Operator([propose()], [act()], lifetime=60)
    session, approval = waiting(machine, operator)
    assert sweep.expire_due() == 0
    with clock.shifted(timedelta(seconds=61)):
        assert sweep.expire_due() == 1
        assert sweep.expire_due() == 0
    approval.refresh_from_db()
    assert (approval.state, proposal().state) == ("expired", "expired")
    assert machine.events(session).count("proposal.expired") == 1


def test_a_proposal_that_nothing_used_in_time_is_expired_by_the_sweep(machine: Machine) -> None:
    machine.start(Operator([propose()], lifetime=60).agent)
    with clock.shifted(timedelta(seconds=61)):
        assert sweep.expire_due() == 1
    assert (proposal().state, proposal().used_by) == ("expired", None)


# ---- between what the policy read and what the rows say ----


class Reading:
    """The reviewed-action policy, with something that happens right after it has read."""

    def __init__(self, inner: Any, then: Any) -> None:
        self.inner, self.then = inner, then

    @property
    def identity(self) -> PolicyIdentity:
        identity: PolicyIdentity = self.inner.identity
        return identity

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        answer: PolicyResult = self.inner.authorize(request)
        if answer.reviewed is not None:
            self.then()
        return answer


@pytest.mark.parametrize(
    "change, why",
    [
        ({"state": "withdrawn", "closed_at": rows.NOW}, "is withdrawn"),
        ({"created_at": rows.NOW - timedelta(days=2), "expires_at": rows.NOW - timedelta(days=1)}, "is expired"),
        ({"fields": {**FIELDS, "target": "other"}}, "not what the policy read"),
        ({"tool": "another"}, "not what the policy read"),
        ({"round_position": 7}, "in one round"),
    ],
)
def test_a_proposal_that_changed_after_the_policy_read_it_binds_nothing(
    machine: Machine, change: dict[str, Any], why: str
) -> None:
    policy = Reading(reviewed_with(), lambda: Proposal.objects.update(**change))
    operator = Operator([propose()], [act()], policy=policy)
    session = machine.start(operator.agent)
    (call,) = actions(machine, session)
    assert (call.state, call.reason) == ("blocked", "policy")
    assert why in reason(call)
    assert Approval.objects.count() == 0
    assert operator.apply.count == 0


def test_a_policy_cannot_bind_a_call_to_the_proposal_of_another_session(machine: Machine) -> None:
    machine.start(Operator([propose()], name="first").agent)
    digest = canonical.digest(FIELDS).hex()

    class Careless(Reading):
        def authorize(self, request: PolicyRequest) -> PolicyResult:
            if request.tool == "record_proposal":
                return PolicyResult(PolicyDecision.ALLOW)
            return PolicyResult(PolicyDecision.ALLOW, reviewed=Reviewed("change-0001", digest))

    operator = Operator([act()], name="second", policy=Careless(reviewed_with(), None))
    session = machine.start(operator.agent)
    (call,) = actions(machine, session)
    assert (call.state, call.proposal_id, operator.apply.count) == ("blocked", None, 0)


def test_a_call_that_is_no_longer_what_was_reviewed_cannot_be_approved(machine: Machine) -> None:
    operator = Operator([propose()], [act()])
    session, approval = waiting(machine, operator)
    Proposal.objects.update(fields={**FIELDS, "target": "other"})
    with pytest.raises(ProposalConflict, match="can't be approved"):
        machine.decide(approval, "approve")
    machine.decide(approval, "deny")
    machine.run(session)
    assert operator.apply.count == 0


def test_a_proposal_that_is_withdrawn_between_decision_and_dispatch_stops_the_call(machine: Machine) -> None:
    operator = Operator([propose()], [act()])
    session, approval = waiting(machine, operator)
    machine.decide(approval, "approve")
    Proposal.objects.update(state="withdrawn", closed_at=rows.NOW)
    machine.run(session)
    approval.refresh_from_db()
    call = actions(machine, session)[0]
    assert (approval.state, call.state, operator.apply.count) == ("void", "blocked", 0)
    assert call.effect.state == "abandoned"


def test_a_reviewed_call_of_an_external_tool_keeps_its_operation_when_its_outcome_is_unknown(machine: Machine) -> None:
    operator = Operator([propose()], [act()], effect=ToolEffect.EXTERNAL)
    operator.system.breaks = True
    session, approval = waiting(machine, operator)
    machine.decide(approval, "approve")
    machine.run(session)
    effect = EffectRecord.objects.get(call=approval.call)
    assert (effect.state, effect.operation_id, proposal().state) == ("outcome_unknown", "change-0001", "used")
    assert session.interruption == "effect_outcome_unknown"


def test_what_may_be_retried_is_approved_and_dispatched_again_under_the_proposal_it_used(machine: Machine) -> None:
    operator = Operator([propose()], [act()], effect=ToolEffect.EXTERNAL)
    operator.system.breaks = True
    session, approval = waiting(machine, operator)
    machine.decide(approval, "approve")
    machine.run(session)
    call = approval.call
    EffectRecord.objects.filter(call=call).update(state="safe_to_retry", unknown_since=None)
    ToolCall.objects.filter(pk=call.pk).update(state="awaiting_approval", reason="")
    ToolRound.objects.filter(pk=call.round_id).update(state="waiting")
    Session.objects.filter(pk=session.pk).update(interruption="approval_required")
    again = rows.approval(
        call=call, version=2, intent_digest=approval.intent_digest, four_eyes=False, agent=session.agent
    )

    operator.system.breaks = False
    machine.decide(again, "approve")
    machine.run(session)
    effect = EffectRecord.objects.get(call=call)
    assert (effect.state, effect.dispatches, operator.apply.count) == ("completed", 2, 2)
    assert (proposal().state, proposal().used_by, session.state) == ("used", call, "completed")
