"""The supervisor's view of one cluster: a process group with a guard, its worker, pusher and monitor (see guard.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from uuid import UUID

from ..core import ids
from .beats import Beat, Pulse, Waiting

ASK_SECONDS = 1.0
# An idle worker that does not even answer hangs.
ANSWER_SECONDS = 2.0
KILL_SECONDS = 5.0
# The guard's exit code says which part was lost.
LOST = {3: "its worker was lost", 4: "its pusher was lost", 5: "its monitor was lost"}


def _start(command: Sequence[str], pipe: int) -> subprocess.Popen[bytes]:
    os.set_blocking(pipe, False)
    return subprocess.Popen(
        [*command, str(pipe), str(os.getpid())],
        env={**os.environ, "CAYU_PROCESS": "worker", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        pass_fds=(pipe,),
        start_new_session=True,
    )


class Cluster:
    """`process` is the guard, which leads the group; `pulse` is the worker's. OSError if it cannot be started."""

    def __init__(self, slot: int, command: Sequence[str]) -> None:
        self.slot = slot
        self.id: UUID = ids.new_id()
        ours, theirs = os.pipe()
        try:
            self.process = _start(command, theirs)
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        self.started = time.monotonic()
        self.pulse = Pulse(ours, self.started)
        self.asked_at = inf
        self.leaves_by = inf
        self._repeat_at = 0.0

    @property
    def beat(self) -> Beat | None:
        return self.pulse.beat

    def loss(self, now: float, waiting: Waiting, stray_since: float = inf) -> str | None:
        """Why this cluster is lost; None while it is well."""
        code = self.process.poll()
        if code is not None:
            return LOST.get(code) or (f"killed by signal {-code}" if code < 0 else f"ended with {code}")
        if self.beat is not None and self.beat.leaving and self.asked_at == inf:
            return "somebody told it to leave"
        return self.pulse.ailment(now, waiting, stray_since)

    def leave(self, now: float, seconds: float) -> None:
        """Ask it to take nothing more, and to end what it runs within so long."""
        if self.asked_at == inf:
            self.asked_at, self.leaves_by = now, now + seconds
        if now >= self._repeat_at:
            self._repeat_at = now + ASK_SECONDS
            self._signal(signal.SIGTERM)

    def has_left(self, now: float) -> bool:
        """Whether nothing runs in it any more that could be waited for."""
        if self.pulse.closed or self.beat is None or self.pulse.ailment(now, Waiting()):
            return True
        return not self.pulse.is_busy and (self.beat.leaving or now - self.asked_at > ANSWER_SECONDS)

    def kill(self) -> None:
        """All that is in its process group, also what a tool started and left there."""
        self._signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(KILL_SECONDS)
        self.pulse.close()

    def _signal(self, signum: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS says the second of a group of zombies
            os.killpg(self.process.pid, signum)
