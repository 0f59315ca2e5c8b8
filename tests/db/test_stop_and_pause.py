"""Stopping a session (CASES B14), and the kill switch."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from cayu_runtime import ToolEffect
from cayu_runtime.core import clock, execution, lease, model
from cayu_runtime.errors import Conflict, InvalidRequest, NotFound
from cayu_runtime.models import Approval, EffectRecord, ToolRound
from cayu_runtime.services.pause import pause_dispatch, resume_dispatch
from cayu_runtime.services.session import interrupt_session
from tests.machine import Counter, Gate, Machine, agent_of

ASK = Gate(move_money="require_approval")


def stop(machine: Machine, session):
    interrupt_session(machine.tenant, machine.bob, session.session_id, reason="enough")
    session.refresh_from_db()


def test_a_stop_of_a_waiting_session_cancels_what_is_asked_and_answers_the_calls(machine):  # B14
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    stop(machine, session)
    assert (session.state, session.interruption) == ("interrupted", "operator_requested")
    assert (machine.calls(session)[0].state, machine.effect(session).state) == ("cancelled", "abandoned")
    assert Approval.objects.get(session=session).state == "cancelled"
    assert ToolRound.objects.get(session=session).state == "settled"
    machine.run(session)
    assert (tool.count, session.state) == (0, "interrupted")


def test_a_stop_of_a_session_with_prepared_calls_settles_them_as_not_executed(machine):  # B14
    first, second = Counter("pay_a"), Counter("pay_b")
    policy = Gate(pay_a="require_approval", pay_b="require_approval")
    session = machine.start(agent_of(first, second, policy=policy))
    machine.decide(machine.approvals(session)[0], "approve")
    stop(machine, session)
    one, two = machine.calls(session)
    assert (one.state, one.result["executed"], one.result["outcome_unknown"]) == ("failed", False, False)
    assert two.state == "cancelled"
    assert set(EffectRecord.objects.filter(session=session).values_list("state", flat=True)) == {"abandoned"}


def test_a_stop_before_the_first_step_interrupts_at_once(machine):
    session = machine.start(agent_of(Counter()), run=False)
    stop(machine, session)
    assert session.interruption == "operator_requested"
    assert machine.run(session).steps == 0


def test_a_stop_while_a_tool_runs_keeps_its_outcome_and_runs_no_further(machine, monkeypatch):  # B14
    first, second = Counter("pay_a"), Counter("pay_b")
    session = machine.start(agent_of(first, second, policy=Gate()), run=False)
    stop_inside(monkeypatch, machine, session, first)
    machine.run(session)
    assert (first.count, second.count) == (1, 0)
    one, two = machine.calls(session)
    assert (one.state, two.state, two.result["executed"]) == ("completed", "failed", False)
    assert (session.state, session.interruption) == ("interrupted", "operator_requested")


def test_a_stop_while_an_external_call_ends_unknown_waits_for_evidence_first(machine, monkeypatch):  # B14
    def lose(ctx, args):
        raise ConnectionError

    tool = Counter(does=lose)
    session = machine.start(agent_of(tool, policy=Gate()), run=False)
    stop_inside(monkeypatch, machine, session, tool)
    machine.run(session)
    assert (session.interruption, session.stopped_by) == ("effect_outcome_unknown", "operator_requested")


def test_a_stop_during_a_model_step_drops_the_answer(machine, monkeypatch):
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate()), run=False)
    real = model.ask

    def ask(*request):
        stop(machine, session)
        return real(*request)

    monkeypatch.setattr(model, "ask", ask)
    machine.run(session)
    assert (session.interruption, session.rounds, tool.count) == ("operator_requested", 0, 0)


def test_a_stop_whose_holder_died_is_finished_by_the_next_claim(machine):
    session = machine.start(agent_of(Counter()), run=False)
    lease.claim(session.pk, "worker-1")
    stop(machine, session)
    assert session.state == "interrupting"
    with clock.shifted(timedelta(seconds=60)):
        machine.run(session, "worker-2")
    assert (session.state, session.interruption) == ("interrupted", "operator_requested")


def test_stopping_twice_changes_nothing_and_an_ended_session_refuses(machine):
    session = machine.start(agent_of(Counter(), policy=ASK))
    stop(machine, session)
    seq = session.last_seq
    stop(machine, session)
    assert session.last_seq == seq
    ended = machine.start(agent_of(Counter("read", ToolEffect.NONE)))
    with pytest.raises(Conflict):
        stop(machine, ended)
    with pytest.raises(NotFound):
        interrupt_session(Machine().tenant, machine.bob, session.session_id)


def stop_inside(monkeypatch, machine: Machine, session, tool: Counter) -> None:
    """Stop the session as this tool begins, from the worker's own thread: a test's transaction has one connection."""
    real = execution.perform

    def perform(called, *rest):
        if called is tool:
            stop(machine, session)
        return real(called, *rest)

    monkeypatch.setattr(execution, "perform", perform)


@pytest.mark.parametrize(
    "named", [{}, {"tool": "move_money"}, {"tenant": True}, {"tenant": True, "tool": "move_money"}, {"agent": True}]
)
def test_a_paused_call_stays_prepared_and_runs_when_resumed(machine, named):
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    named = {**named, **({"tenant": machine.tenant} if "tenant" in named else {})}
    named = {**named, **({"agent": session.agent} if "agent" in named else {})}
    pause_dispatch(machine.bob, reason="ledger is down", **named)
    machine.run(session)
    call = machine.calls(session)[0]
    assert (tool.count, session.state, call.state, call.reason) == (0, "pending", "prepared", "dispatch_paused")
    assert session.runnable_at > clock.now() + timedelta(seconds=20)
    assert resume_dispatch(machine.bob, **named) == 1
    machine.run(session)
    assert (tool.count, session.state, machine.calls(session)[0].reason) == (1, "completed", "")


def test_a_pause_of_something_else_holds_nothing_back(machine):
    pause_dispatch(machine.bob, reason="other", tool="other_tool")
    pause_dispatch(machine.bob, reason="other", tenant=Machine().tenant)
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate()))
    assert (session.state, tool.count) == ("completed", 1)


def test_pausing_needs_a_reason_and_says_when_it_stands_already(machine):
    with pytest.raises(InvalidRequest):
        pause_dispatch(machine.bob, reason=" ")
    pause_dispatch(machine.bob, reason="down")
    with pytest.raises(Conflict):
        pause_dispatch(machine.bob, reason="down")
    with pytest.raises(NotFound):
        resume_dispatch(machine.bob, tool="x")


def test_the_dispatch_command_pauses_says_so_and_resumes(machine, capsys):
    call_command("dispatch", "status")
    call_command("dispatch", "pause", "--tenant", machine.tenant.slug, "--tool", "move_money", "--reason", "audit")
    call_command("dispatch", "status")
    call_command("dispatch", "resume", "--tenant", machine.tenant.slug, "--tool", "move_money")
    said = capsys.readouterr().out
    assert "Nothing is paused." in said
    assert f"tenant {machine.tenant.slug}, tool move_money, all agents: paused since" in said
    assert "Resumed. 0 waiting sessions were woken." in said
    for wrong in (["pause"], ["resume", "--tool", "x"], ["pause", "--tenant", "nobody", "--reason", "x"]):
        with pytest.raises(CommandError):
            call_command("dispatch", *wrong)
