"""After a restored backup: what was open is believed no more (DESIGN §7). With a real restore: tests/faults."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cayu_runtime import Actor, Finding, Observation, ToolEffect
from cayu_runtime.core import clock, execution, quarantine
from cayu_runtime.core.states import CLOSED_EFFECT, EFFECT
from cayu_runtime.errors import Conflict, InvalidRequest, NotFound
from cayu_runtime.models import Approval, EffectRecord, Quarantine, Session
from cayu_runtime.services.quarantine import (
    Looked,
    left_unknown,
    look_up_quarantined,
    release_quarantine,
    resume_stopped,
    start_quarantine,
    take_sessions,
)
from cayu_runtime.services.session import resume_session
from tests import rows
from tests.machine import Counter, Gate, Machine, agent_of
from tests.settling import Adapter, Downstream, look_up, unknown

ASK = Gate(move_money="require_approval")
BARRED = Observation(Finding.ABSENT, barred=True)
SLOWEST = timedelta(seconds=10 + 60)  # the timeout of these tools and the grace


def operator(machine: Machine) -> Actor:
    return Actor("user:bob", "bob", machine.tenant.id, "shell")


def restore(machine: Machine) -> Quarantine:
    """Quarantine the tenant, as after a restored backup."""
    made = start_quarantine(operator(machine), reason="disk lost", tenant=machine.tenant)
    while not take_sessions(operator(machine), made).whole:
        pass
    return made


def ask_all(machine: Machine) -> Looked:
    return look_up_quarantined(machine.tenant, operator(machine), reason="restored")


def release(machine: Machine, made: Quarantine, *leave: EffectRecord) -> int:
    names = frozenset(effect.pk for effect in leave)
    return release_quarantine(operator(machine), made, [machine.tenant], reason="all settled", leave=names)


def proposed(machine: Machine, tool: Counter) -> Session:
    return machine.start(agent_of(tool, policy=ASK))


def authorized(machine: Machine, tool: Counter) -> Session:
    session = proposed(machine, tool)
    machine.decide(machine.approvals(session)[0], "approve")
    return session


def uncertain(machine: Machine, tool: Counter) -> Session:
    session, _ = unknown(machine, tool)  # type: ignore[arg-type]
    return session


def safe_to_retry(machine: Machine, tool: Counter) -> Session:
    session = uncertain(machine, tool)
    tool.reconciler.answers.insert(0, BARRED)  # type: ignore[union-attr]
    look_up(machine, machine.effect(session))
    return session


STATES = [proposed, authorized, uncertain, safe_to_retry]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_what_was_open_is_uncertain_and_no_approval_of_before_counts(machine, state):  # B17
    tool = Downstream(Adapter(Finding.CONFIRMED_DONE))
    session = state(machine, tool)
    was, ran = machine.effect(session), tool.count
    restore(machine)
    session.refresh_from_db()
    effect = machine.effect(session)
    assert (was.state, effect.state) in {
        ("proposed", "outcome_unknown"), ("authorized", "outcome_unknown"),
        ("outcome_unknown", "outcome_unknown"), ("safe_to_retry", "manual_review"),
    }  # fmt: skip
    assert effect.quarantined_at is not None
    assert (session.state, session.interruption) == ("interrupted", "effect_outcome_unknown")
    assert machine.calls(session)[0].state == "outcome_unknown"
    assert not Approval.objects.filter(session=session, state__in=("pending", "approved")).exists()
    assert machine.run(session).state == "interrupted"
    assert tool.count == ran
    assert {"session.quarantined", "tool.effect.quarantined"} <= set(machine.events(session))


def test_one_under_way_is_uncertain_and_its_holder_is_fenced_off(machine, monkeypatch):
    tool = Downstream(Adapter(Finding.CONFIRMED_DONE), losses=0)
    session = machine.start(agent_of(tool, policy=Gate()), run=False)

    perform = execution.perform

    def restored_meanwhile(*args: Any) -> Any:
        restore(machine)
        assert machine.effect(session).state == "outcome_unknown"
        return perform(*args)

    monkeypatch.setattr(execution, "perform", restored_meanwhile)
    machine.run(session)
    assert (session.state, session.interruption) == ("interrupted", "operator_requested")
    assert machine.effect(session).state == "completed"  # its own late answer settled it
    assert tool.count == 1


def test_no_fence_that_was_given_after_the_backup_is_given_again(machine):
    """A worker that outlived the restore holds one of them."""
    tool = Downstream(Adapter(Finding.CONFIRMED_DONE), losses=0)
    session = authorized(machine, tool)
    fence = Session.objects.get(pk=session.pk).fence
    restore(machine)
    session.refresh_from_db()
    assert session.fence == fence + quarantine.FENCES


def test_done_meanwhile_is_found_and_never_sent_again(machine):  # B17
    tool = Downstream(Adapter(Finding.CONFIRMED_DONE))
    session = authorized(machine, tool)
    made = restore(machine)
    looked = ask_all(machine)
    assert (dict(looked.states), looked.refused) == ({"completed": 1}, [])
    assert machine.effect(session).receipt["dispatch_id"] == ""
    release(machine, made)
    resume_session(machine.tenant, machine.bob, session.session_id)
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 0)
    assert machine.last_text(session) == "move_money: completed."


def test_absent_and_barred_leads_to_a_fresh_approval_and_one_dispatch(machine):
    tool = Downstream(Adapter(BARRED), losses=0)
    session = authorized(machine, tool)
    key = machine.effect(session).idempotency_key
    made = restore(machine)
    assert dict(ask_all(machine).states) == {"safe_to_retry": 1}
    release(machine, made)
    assert resume_stopped(operator(machine), made, reason="looked at") == (1, [], None)
    [approval] = machine.approvals(session)
    assert (approval.version, "restored from a backup" in approval.policy_reason) == (2, True)
    machine.decide(approval, "approve")
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)
    assert tool.seen[0].idempotency_key != key


def test_the_key_after_a_barred_one_is_the_same_in_each_life_of_the_database(machine):
    """Retried after the backup, and looked up anew after the restore: the second dispatch goes under the key of the
    first, so the downstream collapses them.
    """
    tool = Downstream(Adapter(BARRED, BARRED), losses=0)
    session = authorized(machine, tool)
    backup = machine.effect(session).idempotency_key
    restore(machine)
    ask_all(machine)
    first_life = machine.effect(session).idempotency_key
    EffectRecord.objects.filter(session=session).update(idempotency_key=backup)
    restore_again(machine)
    ask_all(machine)
    assert machine.effect(session).idempotency_key == first_life != backup


def restore_again(machine: Machine) -> Quarantine:
    made = start_quarantine(operator(machine), reason="again", tenant=machine.tenant, again=True)
    assert take_sessions(operator(machine), made).whole
    return made


def test_an_absence_counts_only_after_the_longest_that_any_tool_may_take(machine):
    tool = Downstream(Adapter(*[Finding.ABSENT] * 3))
    session = authorized(machine, tool)
    restore(machine)
    looked = ask_all(machine)
    assert (dict(looked.states), machine.effect(session).state) == ({"outcome_unknown": 1}, "outcome_unknown")
    assert looked.again_at is not None
    at = machine.effect(session).quarantined_at
    with clock.shifted(looked.again_at - at - timedelta(seconds=5)):
        ask_all(machine)
        assert machine.effect(session).state == "outcome_unknown"
    with clock.shifted(looked.again_at - at + timedelta(seconds=5)):
        ask_all(machine)
    assert machine.effect(session).state == "safe_to_retry"


def test_an_absence_proves_nothing_while_a_worker_of_before_lives(machine):
    tool = Downstream(Adapter(Finding.ABSENT, Finding.ABSENT))
    session = authorized(machine, tool)
    made = restore(machine)
    old = rows.worker(started_at=made.started_at - timedelta(hours=1), beat_at=made.started_at + timedelta(minutes=1))
    with clock.shifted(timedelta(days=2)):
        ask_all(machine)
        assert machine.effect(session).state == "outcome_unknown"
        old.ended_at = made.started_at + timedelta(minutes=2)
        old.save()
        ask_all(machine)
    assert machine.effect(session).state == "safe_to_retry"


def test_what_a_worker_of_a_lost_machine_sent_can_be_found_absent(machine):
    """Nobody will ever say that it ended; that it is not heard since the quarantine has to do."""
    tool = Downstream(Adapter(Finding.ABSENT, Finding.ABSENT))
    session = uncertain(machine, tool)
    with clock.shifted(timedelta(days=1)):
        look_up(machine, machine.effect(session))
        assert machine.effect(session).state == "outcome_unknown"
        restore(machine)
    with clock.shifted(timedelta(days=1, minutes=10)):
        ask_all(machine)
    assert machine.effect(session).state == "safe_to_retry"


@pytest.mark.parametrize("ends", ["denied", "expired", "stopped"])
def test_a_retry_that_nobody_wants_is_rejected_and_not_never_dispatched(machine, ends):
    tool = Downstream(Adapter(BARRED))
    session = authorized(machine, tool)
    restore(machine)
    ask_all(machine)
    if ends == "denied":
        machine.decide(machine.approvals(session)[0], "deny")
    elif ends == "expired":
        from cayu_runtime.worker.sweep import expire_due

        with clock.shifted(timedelta(days=8)):
            assert expire_due() == 1
    else:
        from cayu_runtime.services.session import abandon_session

        abandon_session(machine.tenant, machine.bob, session.session_id, reason="enough")
    assert machine.effect(session).state == "rejected"


def test_two_effects_of_one_round_are_settled_one_by_one(machine):
    first, second = Downstream(Adapter(BARRED)), Downstream(Adapter(BARRED))
    second.spec = Counter("pay").spec
    session = machine.start(agent_of(first, second, policy=Gate(move_money="require_approval", pay="require_approval")))
    restore(machine)
    assert dict(ask_all(machine).states) == {"safe_to_retry": 2}
    assert len(machine.approvals(session)) == 2


def test_calls_without_effect_keep_waiting(machine):
    session = machine.start(agent_of(Counter(effect=ToolEffect.NONE), policy=ASK))
    restore(machine)
    session.refresh_from_db()
    assert (session.interruption, session.stopped_by) == ("approval_required", "operator_requested")
    machine.decide(machine.approvals(session)[0], "approve")
    session.refresh_from_db()
    assert session.interruption == "operator_requested"


def test_a_session_before_its_model_step_stops_since_the_step_may_have_been_made(machine):
    tool = Counter()
    waiting = machine.start(agent_of(tool, policy=Gate()), run=False)
    ended = machine.start(agent_of(Counter(), rounds=[]))
    made = restore(machine)
    assert machine.run(waiting).interruption == "operator_requested"
    ended.refresh_from_db()
    assert (ended.state, tool.count) == ("completed", 0)
    release(machine, made)
    assert machine.run(waiting).steps == 0
    resume_stopped(operator(machine), made, reason="nothing was done")
    assert machine.run(waiting).state == "completed"


def test_it_is_broken_off_and_goes_on_where_it_was(machine):
    sessions = [proposed(machine, Downstream(Adapter(Finding.CONFIRMED_DONE))) for _ in range(5)]
    made = start_quarantine(operator(machine), reason="disk lost", tenant=machine.tenant)
    assert take_sessions(operator(machine), made, limit=2).seen == 2
    with pytest.raises(Conflict, match="again"):
        release(machine, made)
    again = start_quarantine(operator(machine), reason="other words", tenant=machine.tenant)
    assert (again.pk, again.reason) == (made.pk, "disk lost")
    assert [take_sessions(operator(machine), again, limit=2).seen for _ in range(2)] == [2, 1]
    events = {session.pk: machine.events(session) for session in sessions}
    take_sessions(operator(machine), again)
    assert {session.pk: machine.events(session) for session in sessions} == events
    assert all(kinds.count("session.quarantined") == 1 for kinds in events.values())
    assert len(left_unknown([machine.tenant])) == 5


def test_what_was_taken_before_it_was_broken_off_inside_a_batch_is_not_taken_again(machine):
    session = authorized(machine, Downstream(Adapter(Finding.CONFIRMED_DONE)))
    made = start_quarantine(operator(machine), reason="disk lost", tenant=machine.tenant)
    first = quarantine.quarantine_session(session.pk, made, operator(machine))
    before = (machine.effect(session).revision, machine.events(session))
    again = quarantine.quarantine_session(session.pk, made, operator(machine))
    assert (first, again) == (quarantine.Taken(1, True), quarantine.NOTHING)
    assert (machine.effect(session).revision, machine.events(session)) == before


def test_two_who_begin_it_at_one_moment_begin_one(machine, monkeypatch):
    from cayu_runtime.services import quarantine as service

    mine = start_quarantine(operator(machine), reason="disk lost", tenant=machine.tenant)
    answers = [None, mine]
    monkeypatch.setattr(service, "open_quarantine", lambda tenant: answers.pop(0))
    assert start_quarantine(operator(machine), reason="also mine", tenant=machine.tenant) == mine
    assert Quarantine.objects.count() == 1


def test_who_is_slower_does_not_undo_that_all_were_taken(machine):
    proposed(machine, Downstream(Adapter(Finding.CONFIRMED_DONE)))
    made = start_quarantine(operator(machine), reason="disk lost", tenant=machine.tenant)
    slower = Quarantine.objects.get(pk=made.pk)
    while not take_sessions(operator(machine), made, limit=1).whole:
        pass
    take_sessions(operator(machine), slower, limit=1)
    assert Quarantine.objects.get(pk=made.pk).taken_at is not None


def test_a_resumed_session_is_not_stopped_again_by_the_same_quarantine(machine):
    session = machine.start(agent_of(Counter(), policy=Gate()), run=False)
    made = restore(machine)
    resume_session(machine.tenant, machine.bob, session.session_id)
    assert take_sessions(operator(machine), made).whole
    session.refresh_from_db()
    assert session.state == "pending"


def test_another_tenant_is_left_alone(machine, settings):
    other = Machine()
    session = proposed(other, Downstream(Adapter(Finding.CONFIRMED_DONE)))
    restore(machine)
    assert other.effect(session).state == "proposed"
    with pytest.raises(NotFound):
        look_up(machine, other.effect(session))


def test_it_needs_a_reason(machine):
    with pytest.raises(InvalidRequest, match="why"):
        start_quarantine(operator(machine), reason=" \u200b", tenant=machine.tenant)
    assert not Quarantine.objects.exists()


@pytest.mark.parametrize("state", [name for name in EFFECT.names if name not in CLOSED_EFFECT])
def test_no_open_state_of_an_effect_is_forgotten(machine, state):
    effect = rows.effect(state, call=rows.call(rows.CALL_OF_EFFECT[state], session=rows.session(tenant=machine.tenant)))
    restore(machine)
    effect.refresh_from_db()
    assert effect.state in ("outcome_unknown", "manual_review")
    assert effect.quarantined_at is not None
    assert Session.objects.get(pk=effect.session_id).interruption == "effect_outcome_unknown"
