"""The sweep: what was forgotten is rung for, what is over expires, and nothing that happens to it ends it (B11)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django_q.models import OrmQ

from cayu_runtime import Call
from cayu_runtime.core import clock, decisions
from cayu_runtime.models import Session
from cayu_runtime.worker import sweep, sweeper, tasks
from cayu_runtime.worker.beats import Waiting
from cayu_runtime.worker.sweep import Sweep
from tests import rows
from tests.machine import Counter, Gate, Machine, agent_of

SOON, LATER = timedelta(seconds=2), timedelta(seconds=60)
ASK = Gate(move_money="require_approval")


class Hands:
    """The monotonic clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    moved = Hands()
    monkeypatch.setattr(sweep, "time", moved)
    return moved


def pending(count: int, **values: Any) -> list[Session]:
    tenant = rows.tenant()
    return [rows.session("pending", tenant=tenant, **values) for _ in range(count)]


def rung() -> list[str]:
    return [row.task["args"][0] for row in OrmQ.objects.order_by("id")]


@pytest.mark.django_db
def test_what_has_just_become_runnable_has_its_own_wakeup_under_way() -> None:
    one = pending(1, runnable_at=clock.now())[0]
    assert Sweep().ring_runnable() == 0
    with clock.shifted(SOON):
        assert Sweep().ring_runnable() == 1
    assert rung() == [str(one.id)]


@pytest.mark.django_db
def test_what_nobody_may_take_yet_is_not_rung_for() -> None:
    rows.session("pending", runnable_at=clock.now() + LATER)
    rows.session("running")
    for state in ("interrupted", "completed", "failed"):
        rows.session(state)
    assert Sweep().ring_runnable() == 0


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["running", "interrupting"])
def test_a_dead_lease_is_rung_for_at_once(state: str) -> None:
    one = rows.session(state, lease_until=clock.now())
    Sweep().ring_runnable()
    assert rung() == [str(one.id)]


@pytest.mark.django_db
def test_the_cost_does_not_grow_with_the_number_of_sessions() -> None:
    counts = []
    for more in (1, 100):
        pending(more)
        with CaptureQueriesContext(connection) as queries:
            assert Sweep().ring_runnable() == Session.objects.count()
        counts.append(len(queries))
        OrmQ.objects.all().delete()
    assert counts[0] == counts[1] <= 8


@pytest.mark.django_db
def test_as_many_wakeups_as_sessions_are_enough_for_a_lease_s_length(hands: Hands) -> None:
    sessions = pending(3)
    one = Sweep()
    assert one.ring_runnable() == 3
    hands.now += settings.CAYU_LEASE_SECONDS - 1
    assert (one.ring_runnable(), Sweep().ring_runnable()) == (0, 0)
    hands.now += 1
    assert one.ring_runnable() == 3
    assert len(rung()) == 6
    assert set(rung()) == {str(session.id) for session in sessions}


@pytest.mark.django_db
def test_a_wakeup_that_was_taken_and_did_not_help_is_repeated_soon(hands: Hands) -> None:
    pending(1)
    one = Sweep()
    assert one.ring_runnable() == 1
    OrmQ.objects.all().delete()
    assert one.ring_runnable() == 0
    hands.now += sweep.AGAIN_SECONDS
    assert one.ring_runnable() == 1


@pytest.mark.django_db
def test_it_knows_since_when_something_waits(hands: Hands) -> None:
    one = Sweep()
    one.ring_runnable()
    assert one.waiting == Waiting(hands.now, None)
    first = pending(1)[0]
    one.ring_runnable()
    began = hands.now
    hands.now += 3
    one.ring_runnable()
    assert one.waiting == Waiting(hands.now, began)
    OrmQ.objects.all().delete()
    first.delete()
    one.ring_runnable()
    assert one.waiting == Waiting(hands.now, None)


def test_a_session_whose_wakeups_are_all_dropped_still_finishes(machine: Machine) -> None:
    """Each wake-up of the machine's own is thrown away; those of the sweep are delivered."""
    tool = Counter()
    plan = [[Call("move_money", {"to": "x"})], [Call("move_money", {"to": "y"})]]
    session = machine.start(agent_of(tool, policy=ASK, rounds=plan), run=False)
    for step in range(1, 8):
        OrmQ.objects.all().delete()
        with clock.shifted(step * SOON):
            Sweep().once()
            for wakeup in rung():
                tasks.run_session(wakeup)
            for approval in machine.approvals(session):
                machine.decide(approval, "approve")
        session.refresh_from_db()
    assert (session.state, tool.count) == ("completed", 2)


def waiting_for_people(machine: Machine, count: int) -> list[Session]:
    agent = agent_of(Counter(), policy=Gate(move_money=("require_approval", 30.0)))
    return [machine.start(agent) for _ in range(count)]


def test_approvals_that_are_over_expire(machine: Machine) -> None:
    sessions = waiting_for_people(machine, 2)
    assert sweep.expire_due() == 0
    with clock.shifted(LATER):
        assert Sweep().once() == (2, 0)
        assert sweep.expire_due() == 0
    for session in sessions:
        session.refresh_from_db()
        assert (session.state, machine.calls(session)[0].state) == ("pending", "expired")


def test_one_that_cannot_expire_does_not_keep_the_others_from_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = waiting_for_people(machine, 3)
    expire = decisions.expire

    def broken(session: Any, approval: Any) -> bool:
        if session == sessions[1].pk:
            raise RuntimeError("this row is broken")
        return expire(session, approval)

    monkeypatch.setattr(decisions, "expire", broken)
    with clock.shifted(LATER):
        assert sweep.expire_due() == 2


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_it_waits_for_no_row_and_two_at_once_ring_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held, *others = pending(3)
    approval = rows.approval("pending", created_at=rows.NOW - 2 * LATER, expires_at=rows.NOW - LATER)
    with transaction.atomic():
        Session.objects.select_for_update().get(pk=held.pk)
        Session.objects.select_for_update().get(pk=approval.session_id)
        assert elsewhere(Sweep().ring_runnable) == 2
        assert elsewhere(sweep.expire_due) == 0
        assert set(rung()) == {str(other.id) for other in others}
    OrmQ.objects.all().delete()

    ring_all = sweep.doorbell.ring_all
    inner: list[int] = []

    def meanwhile(sessions: Any) -> None:
        ring_all(sessions)
        if not inner:
            inner.append(0)
            inner[0] = elsewhere(Sweep().ring_runnable)

    monkeypatch.setattr(sweep.doorbell, "ring_all", meanwhile)
    assert (Sweep().ring_runnable(), inner) == (3, [0])


def elsewhere(work: Callable[[], Any]) -> Any:
    """What it returns on a connection of its own."""
    answers: list[Any] = []

    def run() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '5s'")
            answers.append(work())
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    return answers[0]


@pytest.mark.django_db
def test_the_sweeping_thread_outlives_a_lost_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper.connections, "close_all", lambda: None)
    thread = sweeper.SweepThread(sweeper.Sweeper())
    pending(1)

    def away() -> int:
        raise OperationalError("the server closed the connection unexpectedly")

    thread.turn()
    assert thread.sweep.waiting.since is not None
    with monkeypatch.context() as patch:
        patch.setattr(sweeper, "expire_due", away)
        patch.setattr(Sweep, "ring_runnable", lambda _: away())
        thread.turn()
        thread.turn()
        assert thread.sweep.waiting == Waiting()
    thread.turn()
    assert thread.sweep.waiting.since is not None


@pytest.mark.django_db
def test_one_broken_part_of_the_sweep_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper.connections, "close_all", lambda: None)

    def broken() -> int:
        raise RuntimeError("no")

    monkeypatch.setattr(sweeper, "expire_due", broken)
    one = pending(1)[0]
    sweeper.SweepThread(sweeper.Sweeper()).turn()
    assert rung() == [str(one.id)]


def test_a_sweep_that_hangs_is_replaced_and_ends_when_it_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()
    turns: list[threading.Thread] = []

    def turn(thread: sweeper.SweepThread) -> None:
        turns.append(thread)
        begun.set()
        go.wait(10)

    monkeypatch.setattr(sweeper, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(sweeper.SweepThread, "turn", turn)
    monkeypatch.setattr(sweeper.SweepThread, "_record_beats", lambda _: None)
    one = sweeper.Sweeper()
    one.start()
    assert begun.wait(10)
    begun.clear()
    first = turns[0]
    one.look_after(first.turned + sweeper.STUCK_SECONDS)  # type: ignore[attr-defined]
    assert len(turns) == 1
    one.look_after(first.turned + sweeper.STUCK_SECONDS + 1)  # type: ignore[attr-defined]
    assert begun.wait(10)
    go.set()
    first.join(10)
    assert not first.is_alive()
    one.stop(10)
    assert turns[1] is not first
    assert not turns[1].is_alive()
