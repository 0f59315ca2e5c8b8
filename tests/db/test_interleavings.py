"""What another hand moves while a tool runs, and what changed between authority and dispatch."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from cayu_runtime import PolicyIdentity, ToolEffect, ToolResult
from cayu_runtime.core import clock, decisions, engine, execution
from cayu_runtime.models import Approval, Attempt, EffectRecord, Session, ToolCall
from cayu_runtime.services.session import interrupt_session
from tests.db.test_recovery import LATER, killed_at
from tests.machine import Counter, Gate, Machine, agent_of

ASK = Gate(move_money="require_approval")


def meanwhile(monkeypatch: pytest.MonkeyPatch, tool: Counter, action: Callable[[], object]) -> None:
    """Do this as the tool begins, from the worker's own thread: a test's transaction has one connection."""
    real = execution.perform

    def perform(called, *rest):
        if called is tool:
            action()
        return real(called, *rest)

    monkeypatch.setattr(execution, "perform", perform)


def two_approved(machine: Machine) -> tuple[Session, Counter, Counter]:
    first, second = Counter("pay_a"), Counter("pay_b")
    policy = Gate(pay_a=("require_approval", 3600.0), pay_b=("require_approval", 10.0))
    session = machine.start(agent_of(first, second, policy=policy))
    for approval in machine.approvals(session):
        machine.decide(approval, "approve")
    return session, first, second


def expire_second(machine: Machine, session: Session) -> None:
    approval = Approval.objects.get(session=session, tool="pay_b")
    with clock.shifted(timedelta(seconds=11)):
        assert decisions.expire(session.pk, approval.pk)


def stop(machine: Machine, session: Session) -> None:
    interrupt_session(machine.tenant, machine.bob, session.session_id)


def approved(machine: Machine, tool: Counter, policy: Gate = ASK) -> Session:
    session = machine.start(agent_of(tool, policy=policy))
    machine.decide(machine.approvals(session)[0], "approve")
    return session


def test_a_sibling_that_expires_while_a_call_runs_costs_nothing(machine, monkeypatch):
    session, first, second = two_approved(machine)
    meanwhile(monkeypatch, first, lambda: expire_second(machine, session))
    for _ in range(3):
        machine.run(session)
    assert (session.state, first.count, second.count) == ("completed", 1, 0)
    assert [call.state for call in machine.calls(session)] == ["completed", "expired"]
    assert "session.claimed_after_crash" not in machine.events(session)


@pytest.mark.parametrize("steps", [(stop, expire_second), (expire_second, stop)])
def test_a_sibling_that_expires_and_a_stop_lose_no_outcome(machine, monkeypatch, steps):
    session, first, second = two_approved(machine)
    meanwhile(monkeypatch, first, lambda: [step(machine, session) for step in steps])
    machine.run(session)
    assert (session.state, session.interruption) == ("interrupted", "operator_requested")
    assert machine.calls(session)[0].state == "completed"
    assert EffectRecord.objects.get(session=session, tool="pay_a").state == "completed"
    assert (first.count, second.count) == (1, 0)


def test_a_receipt_that_comes_between_takeover_and_recovery_settles(machine, monkeypatch):
    tool = Counter()
    session = approved(machine, tool)

    def taken_over():
        with clock.shifted(LATER):
            machine.claim(session, "worker-2")

    meanwhile(monkeypatch, tool, taken_over)
    machine.run(session)
    with clock.shifted(3 * LATER):
        machine.run(session, "worker-3")
    assert (session.state, tool.count, machine.effect(session).state) == ("completed", 1, "completed")
    late = Attempt.objects.get(effect=machine.effect(session), kind="late_outcome")
    assert (late.evidence["outcome"], late.evidence["result"]["content"]) == ("completed", "done")


@pytest.mark.parametrize("effect", [ToolEffect.NONE, ToolEffect.IDEMPOTENT, ToolEffect.EXTERNAL])
def test_a_stop_of_a_session_whose_worker_died_leaves_no_call_dispatched(machine, monkeypatch, effect):  # B14
    tool = Counter(effect=effect)
    session = approved(machine, tool)
    with killed_at(monkeypatch, execution, "perform"):
        machine.run(session)
    stop(machine, session)
    with clock.shifted(LATER):
        machine.run(session, "worker-2")
    state = "failed" if effect is ToolEffect.NONE else "outcome_unknown"
    assert machine.calls(session)[0].state == state
    assert session.state == "interrupted"


def test_a_stop_while_a_replay_is_still_to_come_leaves_no_call_dispatched(machine, monkeypatch):
    tool = Counter(effect=ToolEffect.IDEMPOTENT)
    session = approved(machine, tool)
    with killed_at(monkeypatch, execution, "perform"):
        machine.run(session)
    with clock.shifted(LATER):
        engine.run_session(session.pk, "worker-2", iter([True]).__next__)
        session.refresh_from_db()
        assert (session.state, machine.calls(session)[0].state) == ("pending", "dispatched")
        stop(machine, session)
    session.refresh_from_db()
    assert session.interruption == "effect_outcome_unknown"
    assert machine.calls(session)[0].state == "outcome_unknown"


def test_a_policy_that_changed_since_the_approval_voids_it(machine, monkeypatch):
    tool = Counter()
    session = approved(machine, tool)
    monkeypatch.setattr(Gate, "identity", property(lambda self: PolicyIdentity("gate", "2", {})))
    machine.run(session)
    assert (session.state, tool.count, machine.calls(session)[0].reason) == ("completed", 0, "stale")
    assert Approval.objects.get(session=session).state == "void"


@pytest.mark.parametrize(
    "before, now", [("require_approval", "deny"), ("allow", "deny"), ("allow", "require_approval")]
)
def test_a_policy_that_narrowed_meanwhile_is_obeyed_at_dispatch(machine, monkeypatch, before, now):
    tool = Counter()
    policy = Gate(move_money=before)
    real = execution.refusal_of

    def narrowed(*args):
        policy.answers["move_money"] = now
        return real(*args)

    monkeypatch.setattr(execution, "refusal_of", narrowed)
    session = machine.start(agent_of(tool, policy=policy))
    for approval in machine.approvals(session):
        machine.decide(approval, "approve")
    machine.run(session)
    assert (session.state, tool.count, machine.calls(session)[0].reason) == ("completed", 0, "policy")


def test_content_that_is_not_the_digested_one_is_not_run(machine):
    tool = Counter()
    session = approved(machine, tool)
    ToolCall.objects.filter(session=session).update(arguments={"to": "thief"})
    machine.run(session)
    assert (tool.count, machine.calls(session)[0].reason) == (0, "stale")


def test_a_gated_call_without_its_live_approval_is_not_run(machine):
    tool = Counter()
    session = approved(machine, tool)
    Approval.objects.filter(session=session).update(state="revoked", closed_at=clock.now())
    machine.run(session)
    assert (tool.count, machine.calls(session)[0].state) == (0, "blocked")


def test_a_tool_that_becomes_external_in_a_new_build_is_not_run_again(machine, monkeypatch):
    tool = Counter(effect=ToolEffect.NONE)
    session = machine.start(agent_of(tool, policy=Gate()), run=False)
    with killed_at(monkeypatch, execution, "perform", after=True):
        machine.run(session)
    tool.spec = replace(tool.spec, effect=ToolEffect.EXTERNAL)
    with clock.shifted(LATER):
        machine.run(session, "worker-2")
    assert (tool.count, session.state) == (1, "completed")


def test_a_result_made_of_an_odd_string_is_settled(machine):
    class Odd(str):
        def __len__(self):
            raise RuntimeError("no length")

    tool = Counter(does=lambda ctx, args: ToolResult(Odd("done")))
    session = machine.start(agent_of(tool, policy=Gate()))
    assert machine.effect(session).state == "completed"
