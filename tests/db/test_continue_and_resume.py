"""A session goes on: by a message of who asked for it, or when somebody lifts what stopped it (DESIGN §3)."""

from __future__ import annotations

import pytest
from django.utils import timezone

from cayu_runtime import Agent, Call, Limits, ModelError, Reply, Turn, registry
from cayu_runtime.contracts import ToolEffect
from cayu_runtime.errors import InvalidRequest, NotAccepting, NotFound, NotResumable
from cayu_runtime.models import Session
from cayu_runtime.services.session import continue_session, interrupt_session, resume_session
from tests import rows
from tests.machine import Counter, Gate, Machine, agent_of

ASK = Gate(move_money="require_approval")


def go_on(machine: Machine, session: Session, text: str = "and now the other one") -> Session:
    return continue_session(machine.tenant, machine.alice, session.session_id, text=text)[0]


def resume(machine: Machine, session: Session) -> Session:
    resumed = resume_session(machine.tenant, machine.bob, session.session_id, reason="try again")
    session.refresh_from_db()
    return resumed


def stop(machine: Machine, session: Session) -> None:
    interrupt_session(machine.tenant, machine.bob, session.session_id)
    session.refresh_from_db()


def agent_that(rule: object, **options: object) -> Agent:
    agent = Agent(name="talker", model=rule, **options)  # type: ignore[arg-type]
    registry.register_for_test(agent)
    return agent


def test_a_completed_session_goes_on_with_a_message(machine: Machine) -> None:
    session = machine.start(agent_of(rounds=[]))
    assert session.state == "completed"
    continued = go_on(machine, session)
    assert (continued.state, continued.finished_at, continued.steps) == ("pending", None, 0)
    assert machine.run(session).state == "completed"
    said = [body["parts"][0]["content"] for body in machine.transcript(session)]
    assert said == ["go", "Nothing to do.", "and now the other one", "Nothing to do."]
    events = machine.events(session)
    assert events[events.index("session.continued") :] == [
        "session.continued", "session.resumed", "model.completed", "session.completed",
    ]  # fmt: skip


def test_a_message_is_refused_while_a_round_is_open_or_it_runs(machine: Machine) -> None:  # A21
    waiting = machine.start(agent_of(Counter(), policy=ASK))
    unknown = machine.start(agent_of(Counter(does=lambda ctx, args: 1 / 0), policy=Gate()))
    pending = machine.start(agent_of(rounds=[]), run=False)
    running = machine.start(agent_of(rounds=[]), run=False)
    machine.claim(running)
    assert (waiting.interruption, unknown.interruption) == ("approval_required", "effect_outcome_unknown")
    for session in (waiting, unknown, pending, running):
        before = (machine.transcript(session), machine.events(session))
        with pytest.raises(NotAccepting):
            go_on(machine, session)
        assert (machine.transcript(session), machine.events(session)) == before


def test_a_failed_or_client_driven_session_takes_no_message(machine: Machine) -> None:
    failed = rows.session("failed", tenant=machine.tenant)
    elsewhere = rows.session("interrupted", tenant=machine.tenant, client_driven=True, interruption="client_execution")
    for session in (failed, elsewhere):
        with pytest.raises(NotAccepting):
            go_on(machine, session)


def test_an_empty_message_and_an_unknown_session_are_refused(machine: Machine) -> None:
    session = machine.start(agent_of(rounds=[]))
    with pytest.raises(InvalidRequest):
        go_on(machine, session, " \x07 ")
    with pytest.raises(NotFound):
        go_on(Machine(), session)


def test_a_stop_is_lifted_and_what_was_denied_stays_undone(machine: Machine) -> None:
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    stop(machine, session)
    assert session.interruption == "operator_requested"
    assert resume(machine, session).state == "pending"
    assert session.stopped_by is None
    assert machine.run(session).state == "completed"
    assert tool.count == 0
    events = machine.events(session)
    assert events.index("session.resume_requested") + 1 == events.index("session.resumed")


def test_resuming_twice_changes_nothing(machine: Machine) -> None:
    session = machine.start(agent_of(Counter(), policy=ASK))
    stop(machine, session)
    resume(machine, session)
    before = machine.events(session)
    assert resume(machine, session).state == "pending"
    assert machine.events(session) == before


def test_a_stop_is_lifted_while_an_outcome_is_unknown_and_it_still_waits_for_evidence(machine: Machine) -> None:
    session = machine.start(agent_of(Counter(does=lambda ctx, args: 1 / 0), policy=Gate()))
    stop(machine, session)
    assert (session.interruption, session.stopped_by) == ("effect_outcome_unknown", "operator_requested")
    resume(machine, session)
    assert (session.state, session.interruption, session.stopped_by) == ("interrupted", "effect_outcome_unknown", None)
    with pytest.raises(NotResumable):
        resume(machine, session)


def test_a_reached_limit_counts_anew(machine: Machine) -> None:
    look = Counter("look", ToolEffect.NONE)
    agent = agent_that(
        lambda turn: Reply(calls=(Call("look", {"to": "x"}),)), tools=(look,), limits=Limits(max_steps=2)
    )
    session = machine.start(agent)
    assert (session.interruption, session.steps, look.count) == ("limit_reached", 2, 2)
    resume(machine, session)
    assert (session.state, session.steps) == ("pending", 0)
    machine.run(session)
    assert (session.interruption, session.steps, look.count) == ("limit_reached", 2, 4)
    go_on(machine, session)
    assert machine.run(session).interruption == "limit_reached"
    assert look.count == 6


def test_a_model_that_is_back_is_asked_again(machine: Machine) -> None:
    broken = [True]

    def rule(turn: Turn) -> Reply:
        if broken[0]:
            raise ModelError("refused", "no", answered=True)
        return Reply("Here I am.")

    session = machine.start(agent_that(rule))
    assert session.interruption == "model_unavailable"
    broken[0] = False
    resume(machine, session)
    assert machine.run(session).state == "completed"


def test_a_session_whose_workers_were_lost_runs_again_with_all_tries(machine: Machine) -> None:
    session = rows.session(
        "interrupted", tenant=machine.tenant, agent=agent_of(rounds=[]).name, interruption="worker_lost",
        stopped_by="worker_lost", stalls=3,
    )  # fmt: skip
    resume(machine, session)
    assert (session.state, session.stalls, session.stopped_by) == ("pending", 0, None)


@pytest.mark.parametrize("state", ["completed", "rejected", "abandoned"])
def test_a_failed_session_runs_again_if_every_effect_is_closed(state: str, machine: Machine) -> None:
    session = rows.session("failed", tenant=machine.tenant, agent=agent_of(rounds=[]).name)
    rows.effect(state, call=rows.call(_call_state(state), session=session))
    resume(machine, session)
    assert (session.state, session.failure, session.finished_at) == ("pending", None, None)


@pytest.mark.parametrize("state", ["outcome_unknown", "manual_review", "intent_recorded", "safe_to_retry"])
def test_a_failed_session_with_an_open_effect_stays_failed(state: str, machine: Machine) -> None:
    session = rows.session("failed", tenant=machine.tenant)
    rows.effect(state, call=rows.call("failed", session=session))
    with pytest.raises(NotResumable):
        resume(machine, session)
    session.refresh_from_db()
    assert session.state == "failed"


def _call_state(effect: str) -> str:
    return "completed" if effect == "completed" else "failed"


def test_what_nothing_stopped_is_not_resumed(machine: Machine) -> None:
    stopping = rows.session("interrupting", tenant=machine.tenant, lease_until=timezone.now())
    for session in (machine.start(agent_of(rounds=[])), machine.start(agent_of(Counter(), policy=ASK)), stopping):
        before = machine.events(session)
        with pytest.raises(NotResumable):
            resume(machine, session)
        assert machine.events(session) == before


def test_a_denied_action_can_be_asked_again_after_a_message_and_not_after_a_resume(machine: Machine) -> None:
    """A resume is nobody's new wish, so what a person denied stays denied (DESIGN §5)."""
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK, rounds=[[Call("move_money", {"to": "x"})]] * 3))
    machine.decide(machine.approvals(session)[0], "deny")
    stop(machine, session)
    resume(machine, session)
    machine.run(session)
    assert [call.reason for call in machine.calls(session)][1] == "denied_before"
    assert not machine.approvals(session)
