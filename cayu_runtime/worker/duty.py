"""Inside a worker process: what it runs, told to the supervisor; and when it has to leave.

SIGTERM, or the loss of the supervisor, makes it leave: it begins nothing, ends the step that runs, gives its session
back. Who then ends the process is the supervisor; an orphan ends its own cluster.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

import structlog
from django_q import signals

from .beats import BEAT_SECONDS, Beat
from .parents import die_with_parent

log = structlog.get_logger(__name__)


class Duty:
    """One per process. In a process that no supervisor started nothing calls `enter`, and it never has to leave."""

    def __init__(self) -> None:
        self.leaving = False
        self.session: str | None = None
        self._begun = 0
        self._since: float | None = None
        self._pipe = -1
        self._guard = 0
        self._drain = 0.0
        self._orphan_since: float | None = None

    def enter(self, pipe: int, guard: int, drain: float) -> None:
        """Called in q2's worker process, in its main thread, before its first task."""
        self._pipe, self._guard, self._drain = pipe, guard, drain
        signal.signal(signal.SIGTERM, self._leave)
        die_with_parent(guard, signal.SIGTERM)
        signals.pre_execute.connect(self._begin)
        signals.post_execute_in_worker.connect(self._end)
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _begin(self, **_: Any) -> None:
        self._begun += 1
        self._since = time.monotonic()

    def _end(self, **_: Any) -> None:
        self._since = None

    def _leave(self, signum: int = 0, frame: FrameType | None = None) -> None:
        self.leaving = True
        self._tell()

    def _beat(self) -> None:
        while True:
            if not self._tell() or os.getppid() != self._guard:
                self._end_as_orphan()
            time.sleep(BEAT_SECONDS)

    def _tell(self) -> bool:
        """Write one beat. False when nobody is left to read it."""
        since = self._since
        busy = None if since is None else round(time.monotonic() - since, 3)
        beat = Beat(os.getpid(), self._begun, busy, self.session, self.leaving)
        try:
            os.write(self._pipe, beat.line())
        except BlockingIOError:
            return True  # it lives, and is too far behind to want another one
        except BrokenPipeError:
            return False
        return True

    def _end_as_orphan(self) -> None:
        """Leave; and end the whole cluster as soon as nothing runs, at the latest after the drain time."""
        now = time.monotonic()
        if self._orphan_since is None:
            self._orphan_since = now
            self.leaving = True
            log.warning("cluster.orphaned", runs=self.session)
        if self._since is None or now - self._orphan_since > self._drain:
            os.killpg(0, signal.SIGKILL)


current = Duty()
