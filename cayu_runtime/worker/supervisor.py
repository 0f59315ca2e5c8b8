"""The supervisor: starts clusters of one worker each, watches them, ends them, and sweeps (DESIGN §6).

Whatever part of a cluster dies or hangs, its whole process group is killed and another one is started: nothing of the
queue between its parts is trusted after that. A worker that is busy meanwhile may end what it runs first.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from types import FrameType

import structlog

from .cluster import Cluster
from .sweeper import Sweeper

log = structlog.get_logger(__name__)

TURN_SECONDS = 0.25
# A cluster that was never ready, or for less than this, died young: from the second one after another on, the next
# start waits, longer each time. What a task does to its worker is limited by the task's own counters.
YOUNG_SECONDS = 2.0
MAX_BACK_OFF = 30.0
# The system had no process or no file left for us.
START_AGAIN_SECONDS = 5.0
SWEEP_END_SECONDS = 5.0
COMMAND = (sys.executable, "-m", "cayu_runtime.worker")


def back_off(young_deaths: int) -> float:
    """Seconds to wait before the next start, after so many young deaths one after another."""
    return 0.0 if young_deaths < 2 else min(MAX_BACK_OFF, 2.0 ** (young_deaths - 2))


@dataclass(slots=True)
class Slot:
    """A place for one cluster: the present one, or when the next may start."""

    number: int
    cluster: Cluster | None = None
    start_at: float = 0.0
    young_deaths: int = 0
    ready_at: float = inf


class Supervisor:
    """Runs until SIGTERM or SIGINT. The first lets what runs end within the drain time, a second ends all at once."""

    def __init__(self, workers: int, drain: float, sweeper: Sweeper | None = None, command: Sequence[str] = COMMAND):
        self.slots = [Slot(number) for number in range(1, workers + 1)]
        self.leaving: list[Cluster] = []
        self.drain = drain
        self.sweeper = sweeper or Sweeper()
        self.command = command
        self.signals = 0
        self._pipes = selectors.DefaultSelector()

    def run(self) -> int:
        """The exit code: 0, or 1 when something that ran was cut off."""
        with self._signals_counted():
            log.info("worker.started", pid=os.getpid(), workers=len(self.slots))
            self.sweeper.start()
            while not self.signals:
                self.turn()
            return self._end()

    @contextmanager
    def _signals_counted(self) -> Iterator[None]:
        before = {signum: signal.signal(signum, self._count) for signum in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)

    def _count(self, signum: int, frame: FrameType | None) -> None:
        self.signals += 1

    def turn(self) -> None:
        """Fill the slots, listen to the clusters for a moment, judge them."""
        now = time.monotonic()
        for slot in self.slots:
            if slot.cluster is None and now >= slot.start_at:
                self._open(slot)
        self._listen()
        now = time.monotonic()
        for slot in self.slots:
            self._judge(slot, now)
        self._see_off(now)
        self._report(now)

    def _clusters(self) -> list[Cluster]:
        return [slot.cluster for slot in self.slots if slot.cluster is not None] + self.leaving

    def _open(self, slot: Slot) -> None:
        try:
            slot.cluster = cluster = Cluster(slot.number, self.command)
        except OSError as error:
            slot.start_at = time.monotonic() + START_AGAIN_SECONDS
            log.error("cluster.not_started", slot=slot.number, error=str(error), again_in=START_AGAIN_SECONDS)
            return
        slot.ready_at = inf
        self._pipes.register(cluster.pulse.fd, selectors.EVENT_READ, cluster)
        log.info("cluster.started", slot=slot.number, pid=cluster.process.pid)

    def _listen(self) -> None:
        for key, _ in self._pipes.select(TURN_SECONDS):
            cluster: Cluster = key.data
            cluster.pulse.read(time.monotonic())
            if cluster.pulse.closed:
                self._pipes.unregister(key.fileobj)

    def _judge(self, slot: Slot, now: float) -> None:
        cluster = slot.cluster
        if cluster is None:
            return
        why = cluster.loss(now, self.sweeper.waiting, self.sweeper.stray_since(cluster.id))
        if why is not None:
            self._replace(slot, cluster, why, now)
        elif cluster.beat is not None and slot.ready_at == inf:
            slot.ready_at = now
            took, pid = round(now - cluster.started, 2), cluster.process.pid
            log.info("cluster.ready", slot=slot.number, pid=pid, worker=cluster.beat.pid, seconds=took)

    def _replace(self, slot: Slot, cluster: Cluster, why: str, now: float) -> None:
        """Kill what is left of it; but a worker that is well may first end what it runs."""
        slot.young_deaths = slot.young_deaths + 1 if now - slot.ready_at < YOUNG_SECONDS else 0
        slot.cluster, slot.start_at = None, now + back_off(slot.young_deaths)
        runs = cluster.beat.session if cluster.beat is not None and cluster.pulse.is_busy else None
        log.warning(
            "cluster.lost",
            slot=slot.number,
            pid=cluster.process.pid,
            why=why,
            runs=runs,
            restart_in=round(slot.start_at - now, 1),
        )
        cluster.leave(now, self.drain)
        self.leaving.append(cluster)

    def _see_off(self, now: float, *, at_once: bool = False) -> int:
        """Kill those that have left or are out of time. Returns how many were cut off in what they ran."""
        cut = 0
        for cluster in list(self.leaving):
            if cluster.has_left(now):
                self._kill(cluster)
            elif at_once or now >= cluster.leaves_by:
                self._kill(cluster)
                if cluster.pulse.is_busy:
                    cut += 1
                    log.error("cluster.cut_off", slot=cluster.slot, runs=cluster.beat and cluster.beat.session)
            else:
                cluster.leave(now, self.drain)
        return cut

    def _kill(self, cluster: Cluster) -> None:
        if not cluster.pulse.closed:
            self._pipes.unregister(cluster.pulse.fd)
        cluster.kill()
        self.leaving.remove(cluster)

    def _report(self, now: float) -> None:
        """What is to stand in the database of the workers."""
        self.sweeper.beats = {c.id: c.beat for c in self._clusters() if c.beat is not None}
        self.sweeper.look_after(now)

    def _end(self) -> int:
        """Drain: ask all to leave, and see each off when it is idle, at the latest when the time is over."""
        began = time.monotonic()
        log.info("worker.draining", seconds=self.drain, runs=sum(c.pulse.is_busy for c in self._clusters()))
        self.leaving = self._clusters()
        for slot in self.slots:
            slot.cluster = None
        for cluster in self.leaving:
            cluster.leave(began, self.drain)
        cut = 0
        while self.leaving:
            self._listen()
            now = time.monotonic()
            cut += self._see_off(now, at_once=self.signals > 1)
            self._report(now)
        self.sweeper.stop(SWEEP_END_SECONDS)
        log.info("worker.ended", seconds=round(time.monotonic() - began, 2), cut_off=cut)
        return 1 if cut else 0
