"""The supervisor over stand-ins for clusters: small programs that beat, fall silent, hang or die as they are told."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from cayu_runtime.worker import beats, cluster, supervisor
from cayu_runtime.worker.beats import Beat, Waiting
from cayu_runtime.worker.cluster import Cluster
from cayu_runtime.worker.supervisor import Supervisor, back_off
from cayu_runtime.worker.sweeper import Sweeper

STAND_IN = """
import json, os, signal, sys, time
how, pipe = sys.argv[1], int(sys.argv[2])
beat = {"pid": os.getpid(), "begun": 0, "busy": 1.0 if how == "busy" else None, "session": None, "leaving": False}
def leave(*_):
    if how != "deaf":
        beat["leaving"] = True
signal.signal(signal.SIGTERM, leave)
if how == "dies":
    sys.exit(7)
if how == "never ready":
    time.sleep(60)
while True:
    os.write(pipe, json.dumps(beat).encode() + b"\\n")
    if how == "silent":
        time.sleep(60)
    time.sleep(0.02)
"""


DRAIN = 0.3


class Quiet(Sweeper):
    """Sweeps nothing; a test says what waits."""

    wanted = Waiting()

    @property
    def waiting(self) -> Waiting:
        return self.wanted

    def start(self) -> None:
        pass

    def stop(self, seconds: float) -> None:
        pass

    def stray_since(self, life: UUID) -> float:
        return inf


@contextmanager
def supervising(how: str, workers: int = 1, drain: float = DRAIN) -> Iterator[Supervisor]:
    made = Supervisor(workers, drain, Quiet(), (sys.executable, "-S", "-c", STAND_IN, how))
    try:
        yield made
    finally:
        for one in made._clusters():
            one.kill()


def work_waits(it: Supervisor) -> None:
    """As it would be a good while from now, had nobody taken anything."""
    assert isinstance(it.sweeper, Quiet)
    it.sweeper.wanted = Waiting(looked=time.monotonic() + beats.IDLE_SECONDS + 1, since=0.0)


def turn_until(it: Supervisor, what: Callable[[], Any]) -> Any:
    give_up = time.monotonic() + 20
    while not (answer := what()):
        assert time.monotonic() < give_up
        it.turn()
    return answer


def only(it: Supervisor) -> Cluster:
    found: Cluster = turn_until(it, lambda: it.slots[0].cluster)
    return found


def ready(it: Supervisor) -> Cluster:
    turn_until(it, lambda: all(slot.cluster is not None and slot.cluster.beat is not None for slot in it.slots))
    return only(it)


def is_gone(one: Cluster) -> bool:
    try:
        os.killpg(one.process.pid, 0)
    except ProcessLookupError:
        return True
    return False


def replaced(it: Supervisor, first: Cluster) -> bool:
    return it.slots[0].cluster not in (None, first) and first not in it.leaving and is_gone(first)


def test_every_slot_gets_a_cluster_of_its_own_process_group_that_keeps_running() -> None:
    with supervising("idle", workers=2) as it:
        ready(it)
        groups = {one.process.pid for one in it._clusters()}
        assert {os.getpgid(group) for group in groups} == groups
        assert len(groups) == 2
        for _ in range(10):
            it.turn()
        assert {one.process.pid for one in it._clusters()} == groups


def test_a_cluster_whose_guard_ends_is_replaced() -> None:
    with supervising("idle") as it:
        first = ready(it)
        first.process.kill()
        turn_until(it, lambda: replaced(it, first))


def test_a_cluster_that_falls_silent_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats, "STALE_SECONDS", 0.5)
    with supervising("silent") as it:
        first = ready(it)
        turn_until(it, lambda: replaced(it, first))


def test_a_cluster_that_never_gets_ready_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats, "START_SECONDS", 0.5)
    with supervising("never ready") as it:
        first = only(it)
        turn_until(it, lambda: replaced(it, first))


@pytest.mark.parametrize("how", ["idle", "deaf"])
def test_a_cluster_that_takes_nothing_while_work_waits_is_replaced(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 0.2)
    with supervising(how) as it:
        first = ready(it)
        work_waits(it)
        turn_until(it, lambda: replaced(it, first))


def test_a_busy_cluster_is_left_alone_while_work_waits() -> None:
    with supervising("busy") as it:
        first = ready(it)
        work_waits(it)
        for _ in range(5):
            it.turn()
        assert it.slots[0].cluster is first


def test_a_cluster_that_dies_at_its_start_is_started_again_and_again_but_later_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    def noted(deaths: int) -> float:
        waits.append(back_off(deaths))
        return 0.0

    monkeypatch.setattr(supervisor, "back_off", noted)
    with supervising("dies") as it:
        turn_until(it, lambda: len(waits) == 4)
    assert waits == [0.0, 1.0, 2.0, 4.0]


def test_a_system_that_starts_nothing_for_a_while_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "START_AGAIN_SECONDS", 0.01)
    with supervising("idle") as it:
        before = open_files()
        real, it.command = it.command, ("/nowhere/to/be/found",)
        for _ in range(3):
            it.turn()
        assert it.slots[0].cluster is None
        assert open_files() == before
        it.command = real
        ready(it)


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.mark.parametrize("deaths, seconds", [(0, 0), (1, 0), (2, 1), (3, 2), (6, 16), (7, 30), (99, 30)])
def test_back_off(deaths: int, seconds: float) -> None:
    assert back_off(deaths) == seconds


@pytest.mark.parametrize(
    "how, signals, code",
    [("idle", 1, 0), ("busy", 1, 1), ("busy", 2, 1), ("idle", 2, 0), ("never ready", 1, 0), ("deaf", 1, 0)],
)
def test_the_end_waits_for_what_runs_as_long_as_it_may(how: str, signals: int, code: int) -> None:
    waits = how in ("busy", "deaf") and signals == 1
    drain = DRAIN if waits else 30.0  # so long that even a busy machine does not come near it
    with supervising(how, workers=2, drain=drain) as it:
        turn_until(it, lambda: all(slot.cluster is not None for slot in it.slots))
        if how != "never ready":
            ready(it)
        started = it._clusters()
        it.signals = signals
        began = time.monotonic()
        assert it._end() == code
        assert all(is_gone(one) for one in started)
        assert (time.monotonic() - began >= drain) == waits


def test_what_the_workers_say_is_handed_on() -> None:
    with supervising("busy") as it:
        one = ready(it)
        it.turn()
        assert it.sweeper.beats == {one.id: Beat(one.process.pid, 0, 1.0, None, leaving=False)}
