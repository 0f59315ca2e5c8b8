"""Reviewed actions through the machine: what is bound to a proposal, and what a second call under its action_id gets.

The downstream system counts. C18 and A10 name the cases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from cayu_runtime import PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, ToolContext, ToolEffect
from cayu_runtime.core import canonical
from cayu_runtime.models import Approval, EffectRecord, Proposal, Session, ToolCall
from cayu_runtime.services.approval import revoke_approval
from cayu_runtime.services.proposal import Recorded, record_proposal
from tests import rows
from tests.machine import Machine
from tests.reviewing import FIELDS, VERIFY, Operator, act, actions, proposal, propose, reason, reviewed_with, waiting

pytestmark = pytest.mark.django_db(transaction=True)  # the recording tool writes from its own thread


@pytest.fixture
def machine(transactional_db: None, settings: Settings) -> Machine:
    settings.CAYU_AUTHORITY = "tests.machine.Everybody"
    return Machine()


# ---- what is bound ----


def test_a_proposal_and_its_action_in_one_round_are_refused(machine: Machine) -> None:  # A10
    operator = Operator([propose(), act()])
    session = machine.start(operator.agent)
    (call,) = actions(machine, session)
    assert (call.state, call.reason, call.proposal_id) == ("blocked", "policy", None)
    assert "both in one round are refused" in reason(call)
    assert (session.state, operator.apply.count) == ("completed", 0)
    assert proposal().state == "open"


def test_what_was_refused_in_its_own_round_may_be_asked_for_in_the_next(machine: Machine) -> None:
    operator = Operator([propose(), act()], [act()])
    session, approval = waiting(machine, operator)
    assert [call.state for call in actions(machine, session)] == ["blocked", "awaiting_approval"]
    machine.decide(approval, "approve")
    machine.run(session)
    assert operator.apply.count == 1


@pytest.mark.parametrize(
    "asked, why",
    [
        (act(target="other"), "differs from proposal 'change-0001' in: target"),
        (act(target="other", reason="routine"), "in: reason, target"),
        (act(action_id="change-0002"), "recorded no proposal 'change-0002'"),
    ],
)
def test_a_call_that_differs_from_its_proposal_is_refused(machine: Machine, asked: Any, why: str) -> None:
    operator = Operator([propose()], [asked])
    session = machine.start(operator.agent)
    (call,) = actions(machine, session)
    assert (call.state, call.reason) == ("blocked", "policy")
    assert why in reason(call)
    assert (session.state, operator.apply.count) == ("completed", 0)
    assert Approval.objects.count() == EffectRecord.objects.filter(tool="apply_change").count() == 0


def test_an_approval_waits_no_longer_than_its_proposal_is_open(machine: Machine) -> None:
    operator = Operator([propose()], [act()], lifetime=60)
    _, approval = waiting(machine, operator)
    assert approval.expires_at == proposal().expires_at


def test_what_was_reviewed_is_used_once_with_the_dispatch(machine: Machine) -> None:
    operator = Operator([propose()], [act(), VERIFY])
    session, approval = waiting(machine, operator)
    machine.decide(approval, "approve")
    assert proposal().state == "open"
    machine.run(session)
    effect = EffectRecord.objects.get(call=approval.call)
    assert (effect.operation_id, effect.state) == ("change-0001", "completed")
    assert (proposal().state, proposal().used_by) == ("used", approval.call)
    assert [event for event in machine.events(session) if event.startswith("proposal")] == ["proposal.recorded"]


def test_the_model_is_told_that_a_proposal_is_on_record(machine: Machine) -> None:
    operator = Operator([propose()])
    machine.start(operator.agent)
    told = operator.requests[-1].outcomes[0].details["structured"]
    assert told["fields"] == FIELDS
    assert told["digest"] == canonical.digest(FIELDS).hex() == proposal().fields_digest.hex()


def test_a_recording_that_broke_after_its_commit_is_run_again_and_finds_its_own_record(machine: Machine) -> None:
    operator = Operator([propose()])
    answers: list[Recorded] = []

    def breaks_once(ctx: ToolContext, **asked: Any) -> Recorded:
        answers.append(record_proposal(ctx, **asked))
        if len(answers) == 1:
            raise ConnectionError("the acknowledgement was lost")
        return answers[-1]

    object.__setattr__(operator.agent, "resources", {"record_proposal": breaks_once})
    session = machine.start(operator.agent)
    (call,) = machine.calls(session)
    assert (call.state, call.runs, session.state) == ("completed", 2, "completed")
    assert [answer.replay for answer in answers] == [False, True]
    assert machine.events(session).count("proposal.recorded") == 1


def test_an_agent_without_the_capability_records_nothing_and_says_what_is_missing(machine: Machine) -> None:
    operator = Operator([propose()])
    object.__setattr__(operator.agent, "resources", {})
    session = machine.start(operator.agent)
    (call,) = machine.calls(session)
    assert (call.state, call.runs, session.state) == ("failed", 0, "completed")
    assert "requires 'record_proposal'" in reason(call)


def test_an_action_that_cannot_begin_withdraws_its_proposal(machine: Machine) -> None:
    operator = Operator([propose()], [act()], requires=("ledger",))
    session, approval = waiting(machine, operator)
    machine.decide(approval, "approve")
    machine.run(session)
    assert (actions(machine, session)[0].reason, proposal().state) == ("missing_resource", "withdrawn")
    assert operator.apply.count == 0


def test_an_approval_that_is_taken_back_withdraws_its_proposal(machine: Machine) -> None:
    operator = Operator([propose()], [act()])
    session, approval = waiting(machine, operator)
    machine.decide(approval, "approve")
    approval.refresh_from_db()
    digest = approval.intent_digest.hex()
    revoke_approval(
        machine.tenant, machine.bob, approval.pk, version=approval.version, digest=digest, reason="too soon"
    )
    machine.run(session)
    assert (actions(machine, session)[0].state, proposal().state) == ("denied", "withdrawn")
    assert operator.apply.count == 0


class Allowing:
    """Binds what the reviewed-action policy would bind, and needs no person for it."""

    identity = PolicyIdentity("allowing", "1", {})

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        return replace(reviewed_with().authorize(request), decision=PolicyDecision.ALLOW)


@pytest.mark.parametrize("effect", ToolEffect)
def test_an_allowed_action_uses_its_proposal_up_too_whatever_its_effect(machine: Machine, effect: ToolEffect) -> None:
    operator = Operator([propose()], [act()], [act()], effect=effect, policy=Allowing())
    session = machine.start(operator.agent)
    first, again = actions(machine, session)
    assert (first.state, proposal().state, proposal().used_by) == ("completed", "used", first)
    assert (operator.apply.count, session.state) == (1, "completed")
    assert again.state == ("blocked" if effect is ToolEffect.NONE else "completed")


# ---- the same action_id again (C18) ----


def test_the_same_proposal_again_is_the_same_record(machine: Machine) -> None:
    operator = Operator([propose()], [propose()])
    session = machine.start(operator.agent)
    assert [call.state for call in machine.calls(session)] == ["completed", "completed"]
    assert proposal().fields == FIELDS
    assert machine.events(session).count("proposal.recorded") == 1


def test_other_fields_under_the_same_action_id_are_a_conflict(machine: Machine) -> None:
    operator = Operator([propose()], [propose(target="other")])
    session = machine.start(operator.agent)
    second = machine.calls(session)[1]
    assert (second.state, second.result["executed"]) == ("failed", False)
    assert second.result["structured"] == {"recorded": False, "code": "proposal_conflict"}
    assert proposal().fields == FIELDS


def test_another_session_gets_a_conflict_at_recording_and_cannot_act(machine: Machine) -> None:
    machine.start(Operator([propose()], name="first").agent)
    operator = Operator([propose()], [act()], name="second")
    session = machine.start(operator.agent)
    recorded, action = machine.calls(session)
    assert recorded.result["structured"]["code"] == "proposal_conflict"
    assert (action.state, action.reason) == ("blocked", "policy")
    assert "This session recorded no proposal" in reason(action)


def test_another_tenant_may_use_the_same_action_id(machine: Machine) -> None:
    machine.start(Operator([propose()], name="first").agent)
    other = Machine()
    session = other.start(Operator([propose()], [act()], name="second").agent)
    assert session.interruption == "approval_required"


def test_after_completion_the_recorded_outcome_is_repeated_and_nothing_is_sent(machine: Machine) -> None:
    operator = Operator([propose()], [act()], [act()])
    session, approval = waiting(machine, operator)
    machine.decide(approval, "approve")
    machine.run(session)
    first, again = actions(machine, session)
    assert (again.state, again.decision, again.repeats) == ("completed", "require_approval", first.effect)
    assert again.result == {**(first.result or {}), "replayed": True}
    assert not EffectRecord.objects.filter(call=again).exists()
    assert not Approval.objects.filter(call=again).exists()
    assert (operator.apply.count, again.runs, session.state) == (1, 0, "completed")


def test_twice_in_one_round_the_second_is_linked(machine: Machine) -> None:
    operator = Operator([propose()], [act(), act()])
    session, approval = waiting(machine, operator)
    first, second = actions(machine, session)
    assert (first.state, second.state, second.reason) == ("awaiting_approval", "blocked", "linked")
    machine.decide(approval, "approve")
    machine.run(session)
    assert (operator.apply.count, session.state) == (1, "completed")


@pytest.mark.parametrize("state", ["intent_recorded", "outcome_unknown", "manual_review", "safe_to_retry"])
def test_while_its_effect_is_open_a_call_is_linked(machine: Machine, state: str) -> None:
    operator = Operator([propose()], [act()])
    session = machine.start(operator.agent, run=False)
    recorded = recorded_before(session, "used", state)
    machine.run(session)
    call = actions(machine, session)[0]
    assert (call.state, call.reason, call.proposal) == ("blocked", "linked", recorded)
    assert f"under way already ({state})" in reason(call)
    assert operator.apply.count == 0


@pytest.mark.parametrize("state", ["rejected", "abandoned"])
def test_when_its_effect_is_closed_otherwise_a_new_action_id_is_needed(machine: Machine, state: str) -> None:
    operator = Operator([propose()], [act()])
    session = machine.start(operator.agent, run=False)
    recorded_before(session, "used", state)
    machine.run(session)
    call = actions(machine, session)[0]
    assert (call.state, call.reason) == ("blocked", "policy")
    assert "Propose under a new action_id." in reason(call)
    assert operator.apply.count == 0


def recorded_before(session: Session, state: str, effect: str) -> Proposal:
    """A proposal of an earlier round, whose action has an effect in this state. Its rounds are over."""
    digest = canonical.digest(FIELDS)
    before = rows.tool_round("settled", session=session, position=100)
    unknown = effect in ("outcome_unknown", "manual_review", "safe_to_retry")
    call = rows.call(
        "failed" if effect != "intent_recorded" else "completed",
        round=before,
        tool="apply_change",
        operation_id="change-0001",
        reason="abandoned" if unknown else "",
    )
    made = rows.proposal(
        state, session=session, action_id="change-0001", tool="apply_change", fields=FIELDS, fields_digest=digest,
        round_position=0, used_by=call if state == "used" else None,
    )  # fmt: skip
    ToolCall.objects.filter(pk=call.pk).update(proposal=made)
    rows.effect(effect, call=call)
    return made


def test_an_abandoned_effect_closes_the_action_even_while_its_proposal_is_open(machine: Machine) -> None:
    operator = Operator([propose()], [act()])
    session = machine.start(operator.agent, run=False)
    recorded_before(session, "open", "abandoned")
    machine.run(session)
    call = actions(machine, session)[0]
    assert (call.state, call.reason, session.state) == ("blocked", "policy", "completed")
    assert "ended: abandoned. Propose under a new action_id." in reason(call)
