"""CASES B: a worker that is lost at each place, as the next claimant finds it. Real processes: tests/faults."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import OperationalError, connection

from cayu_runtime import Call, EffectNotPerformed, ToolEffect, ToolResult
from cayu_runtime.core import clock, dispatch, engine, execution, lease, model
from cayu_runtime.core.lease import Lease
from cayu_runtime.core.routing import load_round, release_lease
from cayu_runtime.errors import Fenced
from cayu_runtime.models import Attempt, Event, Session
from tests.machine import Counter, Gate, Machine, agent_of

ASK = Gate(move_money="require_approval")
LATER = timedelta(seconds=60)


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the program handles it."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, module, name: str, *, after: bool = False) -> Iterator[None]:
    """The worker is lost when it calls `module.name`, before it does anything or after it is done."""
    real = getattr(module, name)

    def deadly(*args, **kwargs):
        if after:
            real(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, name, deadly)
        try:
            yield
        except Killed:
            return
    pytest.fail(f"{name} was never called")


def waiting_for_a_worker(machine: Machine, effect: ToolEffect, **more) -> tuple[Session, Counter]:
    tool = Counter(effect=effect, **more)
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    return session, tool


def test_a_dead_lease_is_taken_over_only_when_it_is_over(machine, monkeypatch):
    session, _ = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    with killed_at(monkeypatch, execution, "perform"):
        machine.run(session)
    assert machine.run(session, "worker-2").state == "running"
    with clock.shifted(LATER):
        assert machine.run(session, "worker-2").interruption == "effect_outcome_unknown"
    assert session.fence == 3


@pytest.mark.parametrize("after", [False, True])
def test_an_external_call_whose_worker_is_lost_is_never_run_again(machine, monkeypatch, after):  # B2
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    with killed_at(monkeypatch, execution, "perform", after=after):
        machine.run(session)
    for worker in ("worker-2", "worker-3"):
        with clock.shifted(LATER):
            machine.run(session, worker)
    assert (session.interruption, tool.count) == ("effect_outcome_unknown", int(after))
    effect = machine.effect(session)
    assert (effect.state, effect.failure_evidence["classification"]) == ("outcome_unknown", "worker_lost")
    assert Event.objects.filter(session=session, type="model.completed").count() == 1


def test_an_idempotent_call_runs_once_more_with_the_same_key_and_then_stops(machine, monkeypatch):  # B1
    session, tool = waiting_for_a_worker(machine, ToolEffect.IDEMPOTENT)
    with killed_at(monkeypatch, execution, "perform", after=True):
        machine.run(session)
    with clock.shifted(LATER), killed_at(monkeypatch, execution, "perform", after=True):
        machine.run(session, "worker-2")
    with clock.shifted(2 * LATER):
        machine.run(session, "worker-3")
    first, second = tool.seen
    assert first.idempotency_key == second.idempotency_key
    assert first.dispatch_id != second.dispatch_id
    assert (first.replayed, second.replayed) == (False, True)
    assert machine.effect(session).state == "outcome_unknown"
    assert list(Attempt.objects.order_by("admitted_at").values_list("state", flat=True)) == ["superseded", "selected"]


def test_an_idempotent_call_that_raises_once_is_repeated_in_place(machine):
    def fail_once(ctx, args):
        if not ctx.replayed:
            raise ConnectionError("lost")
        return ToolResult("done")

    session, tool = waiting_for_a_worker(machine, ToolEffect.IDEMPOTENT, does=fail_once)
    machine.run(session)
    assert (session.state, tool.count, machine.effect(session).state) == ("completed", 2, "completed")
    first = Attempt.objects.get(state="superseded")
    assert (first.evidence["exceptions"], first.evidence["message"]) == (["ConnectionError"], "lost")


@pytest.mark.parametrize("how", ["returns", "raises"])
def test_a_replay_that_says_that_it_did_not_act_says_nothing_about_the_first_run(machine, how):
    def lose_then_refuse(ctx, args):
        if not ctx.replayed:
            raise ConnectionError("lost")
        if how == "raises":
            raise EffectNotPerformed("could not connect")
        return ToolResult("could not connect", is_error=True)

    session, tool = waiting_for_a_worker(machine, ToolEffect.IDEMPOTENT, does=lose_then_refuse)
    machine.run(session)
    effect = machine.effect(session)
    assert (session.interruption, tool.count, effect.state) == ("effect_outcome_unknown", 2, "outcome_unknown")
    assert effect.failure_evidence["classification"] == "replay_not_done"


def test_an_idempotent_call_that_raises_twice_is_unknown(machine):
    def fail(ctx, args):
        raise ConnectionError("lost")

    session, tool = waiting_for_a_worker(machine, ToolEffect.IDEMPOTENT, does=fail)
    machine.run(session)
    assert (session.interruption, tool.count) == ("effect_outcome_unknown", 2)


def test_a_tool_can_switch_its_replay_off(machine):
    def fail(ctx, args):
        raise ConnectionError("lost")

    tool = Counter(effect=ToolEffect.IDEMPOTENT, does=fail)
    tool.spec = replace(tool.spec, replay=False)
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.interruption, tool.count) == ("effect_outcome_unknown", 1)


@pytest.mark.parametrize("gated", [False, True])
def test_a_reading_call_runs_again_once_and_then_fails_and_the_run_goes_on(machine, monkeypatch, gated):  # B1, B13
    tool = Counter(effect=ToolEffect.NONE)
    session = machine.start(agent_of(tool, policy=ASK if gated else None), run=False)
    if gated:
        machine.run(session)
        machine.decide(machine.approvals(session)[0], "approve")
    with killed_at(monkeypatch, execution, "perform", after=True):
        machine.run(session)
    with clock.shifted(LATER), killed_at(monkeypatch, execution, "perform", after=True):
        machine.run(session, "worker-2")
    with clock.shifted(2 * LATER):
        machine.run(session, "worker-3")
    call = machine.calls(session)[0]
    assert (call.state, call.reason, tool.count, session.state) == ("failed", "worker_lost", 2, "completed")
    assert tool.seen[1].replayed is True


def test_a_worker_lost_after_approval_and_before_intent_changes_nothing(machine, monkeypatch):  # B3
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    with killed_at(monkeypatch, execution, "record_intent"):
        machine.run(session)
    with clock.shifted(LATER):
        machine.run(session, "worker-2")
    assert (session.state, tool.count) == ("completed", 1)


def test_a_worker_lost_after_the_result_was_committed_loses_nothing(machine, monkeypatch):  # B4
    first, second = Counter("pay_a"), Counter("pay_b")
    policy = Gate(pay_a="require_approval", pay_b="require_approval")
    session = machine.start(agent_of(first, second, policy=policy))
    for approval in machine.approvals(session):
        machine.decide(approval, "approve")
    with killed_at(monkeypatch, execution, "settle", after=True):
        machine.run(session)
    with clock.shifted(LATER):
        machine.run(session, "worker-2")
    assert (first.count, second.count, session.state) == (1, 1, "completed")


def test_a_model_step_is_asked_again_and_given_up_the_third_time(machine, monkeypatch):  # B13
    session = machine.start(agent_of(Counter(), policy=ASK), run=False)
    for n in range(3):
        with clock.shifted(n * LATER), killed_at(monkeypatch, model, "ask"):
            machine.run(session)
    with clock.shifted(3 * LATER):
        machine.run(session)
    assert (session.interruption, session.stopped_by) == ("worker_lost", "worker_lost")


def test_only_the_highest_fence_can_write(machine):  # B5
    session = machine.start(agent_of(Counter(), policy=ASK), run=False)
    first = machine.claim(session)
    with clock.shifted(LATER):
        second = machine.claim(session, "worker-2")
        assert lease.claim(session.pk, "worker-3") is None
    assert lease.renew(first) is False
    assert lease.renew(second) is True
    with pytest.raises(Fenced):
        release_lease(first)


def test_a_late_outcome_settles_what_was_unknown(machine, monkeypatch):  # B5, B6
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    real = execution.perform

    def stalled(*args):
        outcome = real(*args)
        with clock.shifted(LATER):
            machine.run(session, "worker-2")
        assert session.interruption == "effect_outcome_unknown"
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(execution, "perform", stalled)
        machine.run(session)
    assert (machine.effect(session).state, tool.count) == ("completed", 1)
    assert machine.effect(session).receipt["source"] == "late"
    assert session.state == "pending"
    assert machine.run(session).state == "completed"


def test_a_lost_acknowledgement_of_the_settlement_is_no_second_result(machine, monkeypatch):  # C16, T4
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    monkeypatch.setattr(execution, "RETRY_SECONDS", 0)
    monkeypatch.setattr(connection, "close", lambda: None)
    unacknowledged_once(monkeypatch, "settle")
    machine.run(session)
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)
    assert machine.events(session).count("tool.call.completed") == 1
    assert not Attempt.objects.filter(kind="late_outcome").exists()


def test_a_settlement_that_failed_is_tried_again(machine, monkeypatch):  # C16, T4
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    monkeypatch.setattr(execution, "RETRY_SECONDS", 0)
    monkeypatch.setattr(connection, "close", lambda: None)
    fails_once(monkeypatch, "settle")
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)


def test_a_lost_acknowledgement_of_the_intent_still_runs_once(machine, monkeypatch):  # C16, T3
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    monkeypatch.setattr(connection, "close", lambda: None)
    unacknowledged_once(monkeypatch, "record_intent")
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)
    assert machine.effect(session).dispatches == 1


def test_an_intent_that_failed_runs_nothing_and_is_tried_by_the_next_claim(machine, monkeypatch):  # C16, T3
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    monkeypatch.setattr(connection, "close", lambda: None)
    fails_once(monkeypatch, "record_intent")
    machine.run(session)
    assert (session.state, tool.count) == ("pending", 0)
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)


def test_an_intent_without_acknowledgement_runs_nothing_once_another_took_over(machine, monkeypatch):  # C16, T3
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    monkeypatch.setattr(connection, "close", lambda: None)
    taken_over_once(monkeypatch, machine, session, "record_intent", commits=True)
    machine.run(session)
    assert (session.interruption, tool.count) == ("effect_outcome_unknown", 0)
    assert machine.effect(session).dispatches == 1


def test_an_intent_without_acknowledgement_runs_nothing_under_a_lost_lease(machine, monkeypatch):  # C16, T3
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    real = dispatch.record_intent

    def taken(*args):
        real(*args)
        with clock.shifted(LATER):
            machine.claim(session, "worker-2")
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setattr(execution, "record_intent", taken)
    machine.run(session)
    assert (session.state, session.lease_owner, tool.count) == ("running", "worker-2", 0)


def test_a_settlement_that_failed_is_kept_as_evidence_once_another_took_over(machine, monkeypatch):  # C16, T4
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)
    monkeypatch.setattr(execution, "RETRY_SECONDS", 0)
    monkeypatch.setattr(connection, "close", lambda: None)
    taken_over_once(monkeypatch, machine, session, "settle", commits=False)
    machine.run(session)
    assert machine.effect(session).receipt["source"] == "late"
    assert (machine.run(session).state, tool.count) == ("completed", 1)


def test_a_claim_whose_answer_is_lost_costs_a_lease_and_no_more(machine, monkeypatch):  # C16
    session, tool = waiting_for_a_worker(machine, ToolEffect.EXTERNAL)

    def lost(*args):
        lease.claim(*args)
        raise OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(engine, "claim", lost)
        with pytest.raises(OperationalError):
            machine.run(session)
    assert machine.run(session, "worker-2").state == "running"
    with clock.shifted(LATER):
        assert machine.run(session, "worker-2").state == "completed"
    assert tool.count == 1


def taken_over_once(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, session: Session, name: str, *, commits: bool
) -> None:
    """The transaction's answer does not come, and another worker has the session when the first asks again."""
    real, left = getattr(dispatch, name), [True]

    def away(*args, **kwargs):
        if not left or not left.pop():
            return real(*args, **kwargs)
        if commits:
            real(*args, **kwargs)
        with clock.shifted(LATER):
            machine.run(session, "worker-2")
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(execution, name, away)


def unacknowledged_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _once(monkeypatch, name, commits=True)


def fails_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _once(monkeypatch, name, commits=False)


def _once(monkeypatch: pytest.MonkeyPatch, name: str, *, commits: bool) -> None:
    real, left = getattr(dispatch, name), [True]

    def away(*args, **kwargs):
        if left and left.pop():
            if commits:
                real(*args, **kwargs)
            raise OperationalError("server closed the connection unexpectedly")
        return real(*args, **kwargs)

    monkeypatch.setattr(execution, name, away)


def test_contiguous_reading_calls_run_side_by_side_and_an_effect_is_a_barrier(machine):
    meet = threading.Barrier(2, timeout=5)
    timeline: list[str] = []

    def read(ctx, args):
        meet.wait()
        timeline.append("read")
        return ToolResult("read")

    def act(ctx, args):
        timeline.append("act")
        return ToolResult("acted")

    reader = Counter("read", ToolEffect.NONE, read)
    actor = Counter("act", ToolEffect.EXTERNAL, act)
    calls = [Call(name, {}) for name in ("read", "read", "act", "read", "read")]
    session = machine.start(agent_of(reader, actor, policy=Gate(), rounds=[calls]))
    assert session.state == "completed"
    assert timeline == ["read", "read", "act", "read", "read"]


def test_a_call_whose_round_is_over_and_another_is_open_counts_as_settled(machine):
    tool = Counter("read", ToolEffect.NONE)
    plan = [[Call("read", {})], [Call("move_money", {"to": "x"})]]
    session = machine.start(agent_of(tool, Counter(), policy=ASK, rounds=plan))
    assert [call.state for call in machine.calls(session)] == ["completed", "awaiting_approval"]
    work = load_round(session.pk)
    assert work is not None
    with pytest.raises(execution.SettledAlready):
        execution._reread(Lease(session.pk, session.tenant_id, session.fence, "w"), work, [machine.calls(session)[0]])
