"""Lifecycles, rounds and calls in one process, and the plain driver beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from django.db import connection

from ..models import Session
from . import marks
from .agents import CALLS, NOTE, ROUNDS
from .counts import WARM_UP, recorded_lifecycle
from .lifecycle import Engine, People, people, run_lifecycle, start, wake
from .replay import Replay, identities_of, plain_driver

AT_ROUNDS = (10, 100, 500)
AROUND = 5
# More than any driver sends in a second, so that what was prepared lasts.
MOST_PER_SECOND = 400


def lifecycles(engine: Engine, seconds: float, most: int = 1_000_000) -> Callable[[], dict[str, Any]]:
    """As many lifecycles as go into this time, but no more than `most`."""
    who = people(engine)
    for _ in range(WARM_UP):
        run_lifecycle(who)

    def run() -> dict[str, Any]:
        began, cpu, count = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - began < seconds and count < most:
            run_lifecycle(who)
            count += 1
        lasted, used = time.perf_counter() - began, time.process_time() - cpu
        _all_completed(who)
        return {"made": count + WARM_UP, "count": count, "seconds": lasted, "cpu_ms": used * 1000 / count}

    return run


def _all_completed(who: People) -> None:
    others = Session.objects.filter(tenant=who.tenant).exclude(state="completed").first()
    assert others is None, f"A lifecycle ended {others and others.state}."


def raw_driver(engine: Engine, seconds: float) -> Callable[[], dict[str, Any]]:
    """The statements of one lifecycle, sent by the plain driver as often as goes into this time."""
    who = people(engine)
    for _ in range(WARM_UP):
        run_lifecycle(who)
    session, record = recorded_lifecycle(who)
    replay = Replay(record, identities_of(session, record), qmarks=connection.vendor == "sqlite")
    driver = plain_driver()
    for _ in range(WARM_UP):
        replay.send(driver, replay.fresh())
    prepared = [replay.fresh() for _ in range(int(seconds * MOST_PER_SECOND))]

    def run() -> dict[str, Any]:
        began, cpu, count = time.perf_counter(), time.process_time(), 0
        for parameters in prepared:
            if time.perf_counter() - began > seconds:
                break
            replay.send(driver, parameters)
            count += 1
        lasted, used = time.perf_counter() - began, time.process_time() - cpu
        driver.close()
        return {"count": count, "seconds": lasted, "cpu_ms": used * 1000 / count}

    return run


def rounds(engine: Engine, sessions: int) -> Callable[[], dict[str, float]]:
    """Milliseconds of a round (a model step and a reading call, 2 commits) early and late in a session."""
    who = people(engine)
    _stamps(who, 2 * AROUND)

    def run() -> dict[str, float]:
        runs = [_stamps(who, AT_ROUNDS[-1] + AROUND + 1) for _ in range(sessions)]
        return {str(at): median(ms for stamps in runs for ms in _around(stamps, at)) for at in AT_ROUNDS}

    return run


def _stamps(who: People, count: int) -> list[float]:
    """When the model was asked, in a session of so many rounds."""
    stamps: list[float] = []

    def heard(what: str) -> None:
        if what == "model":
            stamps.append(time.perf_counter())

    session = start(who, ROUNDS, str(count))
    with marks.listening(heard):
        while session.state != "completed":
            wake(who, session)
            session.refresh_from_db()
    return stamps


def _around(stamps: Sequence[float], at: int) -> list[float]:
    lasted = [(after - before) * 1000 for before, after in pairwise(stamps)]
    return lasted[at - AROUND - 1 : at + AROUND]


def calls(engine: Engine, sessions: int) -> Callable[[], float]:
    """Milliseconds of one durable call: its intent, its tool that does nothing, its settlement (2 commits)."""
    who = people(engine)
    _call_times(who)

    def run() -> float:
        return median(ms for _ in range(sessions) for ms in _call_times(who))

    return run


def _call_times(who: People) -> list[float]:
    stamps: list[float] = []

    def heard(what: str) -> None:
        if what == NOTE.spec.name:
            stamps.append(time.perf_counter())

    session = start(who, CALLS, f"notes-{time.monotonic_ns()}")
    with marks.listening(heard):
        wake(who, session)
    return [(after - before) * 1000 for before, after in pairwise(stamps)]
