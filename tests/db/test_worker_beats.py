"""Heartbeats as rows: who works, on what, and who hangs in what is no longer theirs."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from cayu_runtime.core import clock
from cayu_runtime.models import Session, Worker
from cayu_runtime.selectors.worker import is_known_to_be_gone, recent_workers
from cayu_runtime.worker import sweeper
from cayu_runtime.worker.beats import Beat, worker_name
from cayu_runtime.worker.sweeper import Sweeper, SweepThread, find_strays, place, record_beats
from tests import rows

pytestmark = pytest.mark.django_db
NO_PROCESS = 2**22 + 1
LONG = sweeper.LONG_SECONDS + 1


def test_a_row_says_what_the_last_beat_said() -> None:
    life, session = uuid4(), uuid4()
    record_beats({life: Beat(7)})
    idle = Worker.objects.get()
    assert (idle.id, idle.pid, idle.tasks, idle.session, idle.busy_since) == (life, 7, 0, None, None)
    assert not idle.leaving
    assert idle.supervisor == os.getpid()
    with clock.shifted(timedelta(seconds=10)):
        record_beats({life: Beat(7, 1, 4.0, str(session), leaving=True)})
    busy = Worker.objects.get()
    assert (busy.tasks, busy.session, busy.leaving, busy.started_at) == (1, session, True, idle.started_at)
    assert busy.busy_since == busy.beat_at - timedelta(seconds=4)
    assert busy.beat_at - idle.beat_at >= timedelta(seconds=10)


def test_a_session_that_has_ended_between_two_looks_is_not_told_without_its_task() -> None:
    record_beats({uuid4(): Beat(7, 1, None, str(uuid4()))})
    assert Worker.objects.get().session is None


def test_many_are_one_statement(django_assert_max_num_queries) -> None:
    with django_assert_max_num_queries(3):
        record_beats({uuid4(): Beat(n) for n in range(8)})
    assert Worker.objects.count() == 8


def test_who_is_gone_is_known_to_be_and_what_ended_long_ago_is_forgotten() -> None:
    one, other = uuid4(), uuid4()
    thread = SweepThread(Sweeper())
    thread.sweeper.beats = {one: Beat(1), other: Beat(2)}
    thread.turn()
    thread.sweeper.beats = {other: Beat(2)}
    thread.turn()
    assert Worker.objects.get(pk=one).ended_at is not None
    assert Worker.objects.get(pk=other).ended_at is None
    left = rows.worker(beat_at=clock.now() - timedelta(days=31))
    rows.worker(beat_at=clock.now() - timedelta(days=29))
    thread.turn()
    assert Worker.objects.count() == 3
    assert not Worker.objects.filter(pk=left.pk).exists()


def test_of_a_killed_supervisors_workers_only_those_without_a_process_are_gone() -> None:
    host = worker_name(1).partition(":")[0]
    lives = rows.worker(host=host, place=place(), pid=os.getpid())
    died = rows.worker(host=host, place=place(), pid=NO_PROCESS)
    elsewhere = rows.worker(host=host, place="another/1", pid=NO_PROCESS)
    thread = SweepThread(Sweeper())
    thread.sweeper.beats = {uuid4(): Beat(os.getpid())}
    thread.turn()
    assert [row.ended_at is not None for row in fresh(lives, died, elsewhere)] == [False, True, False]


def fresh(*workers: Worker) -> list[Worker]:
    for worker in workers:
        worker.refresh_from_db()
    return list(workers)


@pytest.mark.parametrize(
    "started, ended, known",
    [(rows.NOW, None, False), (rows.NOW, rows.LATER, True), (rows.LATER + timedelta(days=1), None, True)],
    ids=["lives", "was seen to end", "another has its number"],
)
def test_a_worker_is_known_to_be_gone(started: datetime, ended: datetime | None, known: bool) -> None:
    rows.worker(host="there", pid=5, started_at=started, ended_at=ended)
    assert is_known_to_be_gone("there:5", rows.NOW + timedelta(seconds=1)) is known
    assert not is_known_to_be_gone("elsewhere:5", rows.NOW)
    assert not is_known_to_be_gone("worker-1", rows.NOW)


def test_recent_are_those_that_were_heard_and_take_work() -> None:
    heard = rows.worker(beat_at=clock.now() - timedelta(seconds=5))
    rows.worker(beat_at=clock.now() - timedelta(seconds=20))
    rows.worker(beat_at=clock.now(), leaving=True)
    assert recent_workers(timedelta(seconds=10)) == [heard]


def runs(session: Session, busy: float = LONG) -> dict[UUID, Beat]:
    return {uuid4(): Beat(7, 1, busy, str(session.id))}


def test_who_runs_what_it_holds_is_not_astray() -> None:
    session = rows.session("running", lease_owner=worker_name(7))
    assert find_strays(runs(session)) == set()


@pytest.mark.parametrize("state", ["running", "pending", "completed", "interrupted"])
def test_who_runs_what_others_hold_or_nobody_is_astray(state: str) -> None:
    session = rows.session(state)
    beats = runs(session)
    assert find_strays(beats) == set(beats)
    assert find_strays(runs(session, busy=1.0)) == set()


def test_the_sweeper_knows_since_when() -> None:
    one = Sweeper()
    one._thread = thread = SweepThread(one)
    one.beats = runs(rows.session("completed"))
    life = next(iter(one.beats))
    assert one.stray_since(life) == float("inf")
    thread.turn()
    since = one.stray_since(life)
    thread.turn()
    assert one.stray_since(life) == since < float("inf")
