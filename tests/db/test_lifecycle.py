"""CASES A and B as far as one process shows them: what is asked, decided, run and told, in rows."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django_q.models import OrmQ

from cayu_runtime import Agent, Call, EffectNotPerformed, Limits, Reply, ToolEffect, ToolResult, registry
from cayu_runtime.core import clock, decisions
from cayu_runtime.errors import (
    AlreadyDecided,
    ApprovalExpired,
    Conflict,
    DigestMismatch,
    InvalidRequest,
    NotFound,
    StaleVersion,
)
from cayu_runtime.models import Approval, Attempt, Decision, Event
from cayu_runtime.services.session import start_session
from cayu_runtime.worker import sweep
from tests.machine import Counter, Gate, Machine, agent_of

ASK = Gate(move_money="require_approval")


def results(machine: Machine, session) -> list[dict]:
    tools = [body for body in machine.transcript(session) if body["parts"][0]["part_kind"] == "tool-return"]
    return [part["content"] for body in tools for part in body["parts"]]


def test_a_gated_call_waits_and_nothing_ran(machine):  # A1
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    assert (session.state, session.interruption, tool.count) == ("interrupted", "approval_required", 0)
    assert len(machine.approvals(session)) == 1
    assert machine.effect(session).state == "proposed"


def test_an_approved_call_runs_once_and_its_result_reaches_the_model(machine):  # A2
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)
    assert machine.approvals(session) == []
    effect = machine.effect(session)
    assert effect.state == "completed"
    assert effect.receipt["operation_id"] == effect.operation_id == tool.seen[0].operation_id
    assert tool.seen[0].idempotency_key == effect.idempotency_key
    assert machine.last_text(session) == "move_money: completed."
    assert [a.state for a in Attempt.objects.filter(effect=effect)] == ["selected"]


def test_a_denied_call_never_runs_and_the_model_is_told_why(machine):  # A3
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "deny", reason="too much")
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 0)
    (result,) = results(machine, session)
    assert (result["status"], result["executed"]) == ("denied", False)
    assert "too much" in result["reason"]
    assert machine.effect(session).state == "abandoned"


def test_the_same_decision_again_returns_the_record_and_runs_nothing(machine):  # A5
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    approval = machine.approvals(session)[0]
    first = machine.decide(approval, "approve")
    machine.run(session)
    seq = session.last_seq
    again = machine.decide(approval, "approve")
    machine.run(session)
    assert (again.replay, again.decision.pk, tool.count, session.last_seq) == (True, first.decision.pk, 1, seq)


@pytest.mark.parametrize("first, second", [("approve", "deny"), ("deny", "approve")])
def test_the_opposite_decision_is_a_conflict_that_names_the_winner(machine, first, second):  # A6
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    approval = machine.approvals(session)[0]
    machine.decide(approval, first)
    with pytest.raises(AlreadyDecided) as conflict:
        machine.decide(approval, second, machine.carol)
    assert conflict.value.details["winner"]["by"] == "bob"
    machine.run(session)
    assert tool.count == (1 if first == "approve" else 0)


def test_a_decision_needs_the_digest_and_version_that_stand_on_the_row(machine):  # A7
    session = machine.start(agent_of(Counter(), policy=ASK))
    approval = machine.approvals(session)[0]
    with pytest.raises(DigestMismatch):
        machine.decide(approval, "approve", digest="00" * 32)
    with pytest.raises(StaleVersion):
        machine.decide(approval, "approve", version=2)
    for wrong in ("", "zz", "00"):
        with pytest.raises(InvalidRequest):
            machine.decide(approval, "approve", digest=wrong)
    with pytest.raises(InvalidRequest):
        machine.decide(approval, "perhaps")
    with pytest.raises(InvalidRequest):
        machine.decide(approval, "deny", reason="  ")
    assert machine.approvals(session) == [approval]


def test_another_tenants_approval_does_not_exist(machine):  # D1, at the service
    session = machine.start(agent_of(Counter(), policy=ASK))
    with pytest.raises(NotFound):
        Machine().decide(machine.approvals(session)[0], "approve")


def test_a_round_runs_nothing_until_its_last_decision_and_keeps_the_models_order(machine):  # A8
    read, first, second = Counter("read", ToolEffect.NONE), Counter("pay_a"), Counter("pay_b")
    policy = Gate(pay_a="require_approval", pay_b="require_approval")
    session = machine.start(agent_of(read, first, second, policy=policy))
    deny, approve = machine.approvals(session)
    machine.decide(approve, "approve")
    machine.run(session)
    assert (read.count, first.count, second.count) == (0, 0, 0)
    assert (session.state, session.interruption) == ("interrupted", "approval_required")
    machine.decide(deny, "deny")
    machine.run(session)
    assert (read.count, first.count, second.count) == (1, 0, 1)
    assert [r["status"] for r in results(machine, session)] == ["completed", "denied", "completed"]
    assert [c.call_id for c in machine.calls(session)] == [
        p["tool_call_id"] for b in machine.transcript(session) for p in b["parts"] if p["part_kind"] == "tool-return"
    ]


def test_two_approvals_keep_their_own_limits_and_the_round_goes_on_when_both_are_resolved(machine):  # A11
    short, long = Counter("pay_a"), Counter("pay_b")
    policy = Gate(pay_a=("require_approval", 60), pay_b=("require_approval", 3600))
    session = machine.start(agent_of(short, long, policy=policy))
    with clock.shifted(timedelta(seconds=120)):
        assert sweep.expire_due() == 1
        assert [a.tool for a in machine.approvals(session)] == ["pay_b"]
        machine.decide(machine.approvals(session)[0], "approve")
        machine.run(session)
    assert (short.count, long.count, session.state) == (0, 1, "completed")
    assert [r["status"] for r in results(machine, session)] == ["expired", "completed"]


def test_a_decision_after_the_limit_is_refused_and_leaves_a_trace(machine):  # A12
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate(move_money=("require_approval", 60))))
    approval = machine.approvals(session)[0]
    with clock.shifted(timedelta(seconds=61)):
        with pytest.raises(ApprovalExpired):
            machine.decide(approval, "approve")
        machine.run(session)
    assert (tool.count, session.state) == (0, "completed")
    event = Event.objects.get(session=session, type="tool.call.approval_expired")
    assert (event.payload["tried_by"], event.payload["tried"]) == ("user:bob", "approve")
    with pytest.raises(ApprovalExpired):
        machine.decide(approval, "approve")


def test_an_approval_that_expires_before_dispatch_is_not_used(machine):  # A13
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate(move_money=("require_approval", 60))))
    machine.decide(machine.approvals(session)[0], "approve")
    with clock.shifted(timedelta(seconds=61)):
        machine.run(session)
    assert tool.count == 0
    assert (machine.calls(session)[0].state, machine.effect(session).state) == ("expired", "abandoned")
    assert session.state == "completed"


def test_time_never_becomes_a_grant(machine):  # A14
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate(move_money=("require_approval", 60))))
    approval = machine.approvals(session)[0]
    assert decisions.expire(session.pk, approval.pk) is False
    with clock.shifted(timedelta(days=400)):
        assert decisions.expire(session.pk, approval.pk) is True
        assert decisions.expire(session.pk, approval.pk) is False
        machine.run(session)
    assert (tool.count, Approval.objects.get(pk=approval.pk).state) == (0, "expired")


def test_a_deny_reason_is_stored_bounded_and_clean_and_reaches_the_model(machine):  # A25
    session = machine.start(agent_of(Counter(), policy=ASK))
    machine.decide(machine.approvals(session)[0], "deny", reason="no\x00\x07\u202e" + "x" * 10_240)
    machine.run(session)
    reason = Decision.objects.get(approval__session=session).reason
    assert len(reason) <= 2000
    assert reason.startswith("no\\u0000x")
    assert results(machine, session)[0]["reason"].startswith("Denied by bob. Reason: no\\u0000xxx")


def test_a_call_that_a_policy_denies_is_answered_without_anybody_being_asked(machine):
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate(move_money="deny")))
    assert (session.state, tool.count) == ("completed", 0)
    assert results(machine, session)[0]["status"] == "blocked"


def test_an_external_call_without_any_policy_waits_and_a_reading_one_runs(machine):
    read, pay = Counter("read", ToolEffect.NONE), Counter()
    assert machine.start(agent_of(read)).state == "completed"
    assert machine.start(agent_of(pay)).interruption == "approval_required"
    assert (read.count, pay.count) == (1, 0)


def test_an_unknown_tool_is_told_to_the_model(machine):
    session = machine.start(agent_of(Counter(), rounds=[[Call("no_such", {})]]))
    assert "no_such" in results(machine, session)[0]["reason"]


@pytest.mark.parametrize("error", [ConnectionError("lost"), RuntimeError("?"), TimeoutError()])
def test_an_external_call_that_raises_stops_the_session_and_is_never_sent_again(machine, error):  # C1, B2
    def lose_the_answer(ctx, args):
        raise error

    tool = Counter(does=lose_the_answer)
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    for _ in range(3):
        machine.run(session)
    assert (session.state, session.interruption, tool.count) == ("interrupted", "effect_outcome_unknown", 1)
    effect = machine.effect(session)
    assert (effect.state, effect.receipt) == ("outcome_unknown", None)
    assert type(error).__name__ in effect.failure_evidence["exceptions"]
    assert machine.transcript(session)[-1]["kind"] == "response"
    assert sweep.Sweep().ring_runnable() == 0


@pytest.mark.parametrize("answer", [None, "text", {"receipt_id": "rc_1"}, 7])
def test_a_result_that_is_no_result_leaves_the_outcome_unknown_and_is_not_kept(machine, answer):
    tool = Counter(does=lambda ctx, args: answer)
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    effect = machine.effect(session)
    assert effect.state == "outcome_unknown"
    assert "rc_1" not in str(effect.failure_evidence)


def test_a_tool_past_its_deadline_is_unknown_and_left_behind(machine):
    gate = threading.Event()
    tool = Counter(does=lambda ctx, args: gate.wait(10), timeout=0.1)
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    gate.set()
    assert machine.effect(session).failure_evidence["classification"] == "timeout"
    assert session.interruption == "effect_outcome_unknown"


@pytest.mark.parametrize("how", ["raises", "returns"])
def test_a_tool_that_states_that_it_did_not_act_is_rejected_and_the_run_goes_on(machine, how):
    def refuse(ctx, args):
        if how == "raises":
            raise EffectNotPerformed("closed on Mondays")
        return ToolResult("closed on Mondays", is_error=True)

    tool = Counter(does=refuse)
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.state, machine.effect(session).state) == ("completed", "rejected")
    (result,) = results(machine, session)
    assert (result["status"], result["executed"], result["content"]) == ("failed", False, "closed on Mondays")


def test_a_reading_tool_that_raises_is_an_error_for_the_model(machine):
    def fail(ctx, args):
        raise ValueError("no such page")

    session = machine.start(agent_of(Counter("read", ToolEffect.NONE, fail)))
    assert session.state == "completed"
    assert results(machine, session)[0]["status"] == "failed"


def _nested(depth: int) -> dict:
    outer: dict = {}
    for _ in range(depth):
        outer = {"d": outer}
    return outer


def test_results_that_json_cannot_say_are_tagged_and_the_receipt_is_kept(machine):  # C14
    odd = {"nan": float("nan"), "big": 2**60, "nul": "a\x00b", "half": "\ud800", "deep": _nested(2000)}
    tool = Counter(does=lambda ctx, args: ToolResult("a\x00\ud800", odd))
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.state, machine.effect(session).state) == ("completed", "completed")
    structured = results(machine, session)[0]["structured"]
    assert structured["nan"] == {"$number": "nan"}
    assert structured["nul"] == {"$text": "a\\u0000b"}


def test_a_result_of_20_megabytes_is_bounded_and_the_effect_is_completed_once(machine):  # C13
    tool = Counter(does=lambda ctx, args: ToolResult("x" * 20_000_000, {"body": "y" * 20_000_000}))
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)
    assert len(str(results(machine, session)[0])) < 600_000


def test_the_idempotency_key_is_in_no_result_event_or_message(machine):
    tool = Counter(does=lambda ctx, args: ToolResult(f"key {ctx.idempotency_key}", {"k": [ctx.idempotency_key]}))
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    key = machine.effect(session).idempotency_key
    kept = [machine.transcript(session), [e.payload for e in Event.objects.all()], machine.calls(session)[0].result]
    assert key not in str(kept)


def test_a_model_that_fails_stops_the_session_and_says_so(machine):
    def broken(turn):
        raise RuntimeError("no more tokens")

    registry.register_for_test(Agent("broken", broken))
    session = machine.start(registry.find_agent("broken"))
    assert (session.state, session.interruption) == ("interrupted", "model_unavailable")
    assert "no more tokens" in Event.objects.get(session=session, type="model.error").payload["message"]


def test_repeated_call_ids_in_one_reply_are_refused_as_a_whole(machine):  # B10
    tool = Counter("read", ToolEffect.NONE)
    session = machine.start(agent_of(tool, rounds=[[Call("read", {}, "a"), Call("read", {}, "a")]]))
    assert (session.interruption, tool.count) == ("model_unavailable", 0)


def test_a_call_id_of_an_earlier_round_is_another_call(machine):  # B10
    tool = Counter("read", ToolEffect.NONE)
    session = machine.start(agent_of(tool, rounds=[[Call("read", {}, "a")], [Call("read", {}, "a")]]))
    assert (session.state, tool.count) == ("completed", 2)
    one, two = machine.calls(session)
    assert one.operation_id != two.operation_id


def test_an_agent_that_never_ends_is_stopped_at_its_limit(machine):
    tool = Counter("read", ToolEffect.NONE)
    endless = Agent("endless", lambda turn: Reply(calls=(Call("read", {}),)), tools=(tool,), limits=Limits(max_steps=3))
    registry.register_for_test(endless)
    session = machine.start(endless)
    assert (session.interruption, session.stopped_by, tool.count) == ("limit_reached", "limit_reached", 3)


def test_a_tool_that_changed_since_its_approval_is_not_run(machine):  # A16, at dispatch
    tool = Counter()
    agent = agent_of(tool, policy=ASK)
    session = machine.start(agent)
    machine.decide(machine.approvals(session)[0], "approve")
    tool.spec = Counter(version="2").spec
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 0)
    assert machine.calls(session)[0].reason == "stale"
    assert Approval.objects.get(session=session).state == "void"


def test_any_number_of_wakeups_runs_a_session_once(machine):  # B11, one after another
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    for _ in range(20):
        machine.run(session)
    assert tool.count == 1


def test_the_sweep_rings_once_for_what_lost_its_wakeup(machine):  # B11
    session = machine.start(agent_of(Counter(), policy=ASK), run=False)
    OrmQ.objects.all().delete()
    sweeper = sweep.Sweep()
    with clock.shifted(timedelta(seconds=2)):
        assert (sweeper.ring_runnable(), sweeper.ring_runnable(), OrmQ.objects.count()) == (1, 0, 1)
    machine.run(session)
    assert session.interruption == "approval_required"


def test_starting_refuses_what_cannot_be_run(machine):
    agent = agent_of(Counter())
    start_session(machine.tenant, machine.alice, agent=agent.name, text="go", session_id="mine")
    for wrong in ({"agent": "nobody"}, {"text": " \x07 "}, {"text": "x" * 40_000}, {"session_id": "a b"}):
        asked: dict[str, Any] = {"agent": agent.name, "text": "go", **wrong}
        with pytest.raises(InvalidRequest):
            start_session(machine.tenant, machine.alice, **asked)
    with pytest.raises(Conflict):
        start_session(machine.tenant, machine.alice, agent=agent.name, text="go", session_id="mine")
    other = Machine()
    assert start_session(other.tenant, other.alice, agent=agent.name, text="go", session_id="mine").pk
