"""Heartbeats: lines that a worker process writes into a pipe, twice a second, and what its supervisor makes of them.

A pipe needs no database, so that losing that never looks like a dead worker; and a pipe whose other end is closed says
that the process there is gone, on every system.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf

BEAT_SECONDS = 0.5
# Stopped, frozen, or for so long in native code that lets no other thread run.
STALE_SECONDS = 10.0
START_SECONDS = 60.0
IDLE_SECONDS = 5.0
# A worker that still runs what it no longer holds may be in a long tool whose outcome is evidence; then it hangs.
STRAY_SECONDS = 300.0


def worker_name(pid: int) -> str:
    """Who holds a lease: host and process."""
    return f"{socket.gethostname()[:60]}:{pid}"


@dataclass(frozen=True, slots=True)
class Beat:
    """What a worker process says of itself.

    `begun` counts the tasks it has begun, `busy` is for how many seconds it has run the present one (None: idle),
    `session` the session which that runs, `leaving` that it takes no other any more.
    """

    pid: int
    begun: int = 0
    busy: float | None = None
    session: str | None = None
    leaving: bool = False

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


class Pulse:
    """The supervisor's end of one worker's pipe. Moments are of this process's monotonic clock."""

    def __init__(self, fd: int, now: float) -> None:
        self.fd = fd
        self.opened = now
        self.heard = now
        self.free_since = now
        self.beat: Beat | None = None
        self.closed = False
        self._rest = b""

    def read(self, now: float) -> None:
        """Take in what was written since. `closed` once nobody is left who could write."""
        while not self.closed:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                with suppress(ValueError, TypeError):  # whatever else writes there is no heartbeat
                    self._hear(Beat(**json.loads(line)), now)
            self.closed = not data

    def close(self) -> None:
        self.closed = True
        os.close(self.fd)

    def _hear(self, beat: Beat, now: float) -> None:
        if self.beat is None or beat.busy is not None or beat.begun != self.beat.begun:
            self.free_since = now
        self.beat = beat
        self.heard = now

    @property
    def is_busy(self) -> bool:
        return self.beat is not None and self.beat.busy is not None

    def ailment(self, now: float, waiting: Waiting, stray_since: float = inf) -> str | None:
        """Why the worker is not to be trusted any more; None while it is."""
        if self.beat is None:
            return f"not ready after {START_SECONDS:.0f} s" if now - self.opened > START_SECONDS else None
        if now - self.heard > STALE_SECONDS:
            return f"no heartbeat for {now - self.heard:.0f} s"
        idle = waiting.seconds_since(self.free_since)
        if not self.is_busy and idle > IDLE_SECONDS:
            return f"idle for {idle:.0f} s while work waits"
        if self.is_busy and now - stray_since > STRAY_SECONDS:
            return f"for {now - stray_since:.0f} s in a session that it does not hold"
        return None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Work that nobody takes: since when, as of the last look. Both are moments of the monotonic clock."""

    looked: float = 0.0
    since: float | None = None

    def seconds_since(self, moment: float) -> float:
        """For how long it has been waiting after that moment."""
        return 0.0 if self.since is None else self.looked - max(self.since, moment)
