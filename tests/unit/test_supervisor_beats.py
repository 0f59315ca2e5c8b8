"""Heartbeats: what is read from the pipe, and what is made of it. Moments are given, nothing waits."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cayu_runtime.worker.beats import IDLE_SECONDS, STALE_SECONDS, STRAY_SECONDS, Beat, Pulse, Waiting

IDLE, BUSY = Beat(7, begun=1), Beat(7, begun=2, busy=0.1, session="s")
NOTHING = Waiting()


@pytest.fixture
def pipe() -> Iterator[tuple[Pulse, int]]:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    pulse = Pulse(ours, 0.0)
    yield pulse, theirs
    pulse.close()


def test_a_beat_comes_as_it_was_sent_also_in_pieces(pipe: tuple[Pulse, int]) -> None:
    pulse, theirs = pipe
    line = BUSY.line()
    os.write(theirs, IDLE.line() + line[:10])
    pulse.read(1.0)
    assert (pulse.beat, pulse.heard, pulse.is_busy) == (IDLE, 1.0, False)
    os.write(theirs, line[10:])
    pulse.read(2.0)
    assert (pulse.beat, pulse.heard, pulse.is_busy) == (BUSY, 2.0, True)
    os.close(theirs)
    pulse.read(3.0)
    assert (pulse.closed, pulse.heard) == (True, 2.0)


@pytest.mark.parametrize("noise", [b"warning\n", b"[1]\n", b'{"pid": 1, "other": 2}\n', b"\xff\n", b"\n"])
def test_what_is_no_beat_is_passed_over(pipe: tuple[Pulse, int], noise: bytes) -> None:
    pulse, theirs = pipe
    os.write(theirs, noise + IDLE.line())
    pulse.read(1.0)
    assert pulse.beat == IDLE
    os.close(theirs)


def heard(pulse: Pulse, theirs: int, beat: Beat, now: float) -> None:
    os.write(theirs, beat.line())
    pulse.read(now)


def test_silence_is_an_ailment(pipe: tuple[Pulse, int]) -> None:
    pulse, theirs = pipe
    heard(pulse, theirs, BUSY, 5.0)
    assert pulse.ailment(5 + STALE_SECONDS, NOTHING) is None
    assert pulse.ailment(6 + STALE_SECONDS, NOTHING) == "no heartbeat for 11 s"
    os.close(theirs)


def test_idleness_is_an_ailment_only_as_long_as_something_waits_that_was_looked_at(pipe: tuple[Pulse, int]) -> None:
    pulse, theirs = pipe
    heard(pulse, theirs, IDLE, 10.0)
    now = 10 + IDLE_SECONDS + 1
    heard(pulse, theirs, IDLE, now)
    assert pulse.ailment(now, NOTHING) is None
    assert pulse.ailment(now, Waiting(looked=now, since=now - 1)) is None
    assert pulse.ailment(now, Waiting(looked=now - 2, since=0.0)) is None  # nobody looked since
    assert pulse.ailment(now, Waiting(looked=now, since=0.0)) == "idle for 6 s while work waits"
    os.close(theirs)


@pytest.mark.parametrize("sign", [BUSY, Beat(7, begun=2)], ids=["it is busy", "it has begun another one"])
def test_who_takes_work_is_not_idle(pipe: tuple[Pulse, int], sign: Beat) -> None:
    pulse, theirs = pipe
    heard(pulse, theirs, IDLE, 1.0)
    heard(pulse, theirs, sign, 20.0)
    heard(pulse, theirs, Beat(7, begun=2), 22.0)
    assert pulse.ailment(22.0, Waiting(looked=22.0, since=0.0)) is None
    os.close(theirs)


def test_running_what_it_does_not_hold_is_an_ailment_in_the_end(pipe: tuple[Pulse, int]) -> None:
    pulse, theirs = pipe
    now = STRAY_SECONDS + 10
    heard(pulse, theirs, BUSY, now)
    assert pulse.ailment(now, NOTHING, stray_since=11.0) is None
    assert pulse.ailment(now, NOTHING, stray_since=1.0) == "for 309 s in a session that it does not hold"
    os.close(theirs)
