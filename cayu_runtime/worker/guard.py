"""One cluster of the queue: q2's guard in this process, and a worker, a pusher and a monitor that it forks.

A cluster has one life. A part that was killed may have held a lock of the queue between them, and then its replacement
waits for ever (q2's own guard would only count it): so the guard ends, and the supervisor starts another cluster.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import uuid
from types import FrameType
from typing import Any

from django.conf import settings
from django_q import signals
from django_q.cluster import Sentinel
from django_q.conf import Conf

from .. import registry
from ..core import model
from .duty import current
from .parents import die_with_parent

# How the guard's exit code tells the supervisor what was lost.
WORKER_LOST, PUSHER_LOST, MONITOR_LOST = 3, 4, 5


def stand_guard(pipe: int) -> None:
    """Run a cluster in this process and its children until it is killed. `pipe` takes the worker's heartbeats."""
    registry.agents()
    model.warm_up()
    guard = os.getpid()

    def enter(**_: Any) -> None:
        current.enter(pipe, guard, settings.CAYU_DRAIN_SECONDS)

    signals.post_spawn.connect(enter, weak=False)
    os.register_at_fork(after_in_child=lambda: _begin_as_part(guard))
    Guard(multiprocessing.Event(), multiprocessing.Event(), uuid.uuid4(), None, Conf.TIMEOUT)


def _begin_as_part(guard: int) -> None:
    """In each process that the guard forks, first of all. The worker changes both when it enters its duty."""
    if os.getppid() == guard:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        die_with_parent(guard, signal.SIGKILL)


class Guard(Sentinel):
    """q2's guard, which calls `reincarnate` for a part that ended."""

    leaving = False

    def start(self) -> None:
        signal.signal(signal.SIGTERM, self._leave)
        super().start()

    def _leave(self, signum: int, frame: FrameType | None) -> None:
        """Take nothing more from the queue, and have the worker leave, which its supervisor sees."""
        self.leaving = True
        self.event_out.set()
        for worker in self.pool:
            if worker.pid is not None:
                os.kill(worker.pid, signal.SIGTERM)

    def reincarnate(self, process: Any) -> None:
        if process in self.pool:
            os._exit(WORKER_LOST)
        if self.leaving and process is self.pusher:
            return
        if process.exitcode < 0:
            os._exit(PUSHER_LOST if process is self.pusher else MONITOR_LOST)
        super().reincarnate(process)  # it ended by itself, as it does without a database, and left no lock behind
