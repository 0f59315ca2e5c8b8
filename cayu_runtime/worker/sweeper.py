"""The supervisor's other thread: it alone speaks to the database, so that losing that never holds up the supervisor."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from math import inf
from pathlib import Path
from uuid import UUID

import structlog
from django.db import connections

from ..core import clock
from ..core.states import LEASED
from ..models import Session, Worker
from .beats import Beat, Waiting, worker_name
from .sweep import Sweep, expire_due

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 1.0
# A turn that takes so long hangs in a connection that will not answer: another thread takes over.
STUCK_SECONDS = 60.0
# A session that has been run for less than this is not looked up.
LONG_SECONDS = 30.0
# What a killed supervisor left is forgotten after so long.
FORGET = timedelta(days=30)


class Sweeper:
    """Sweeps and writes `beats` to the database each second, in a thread that nothing ends but `stop`."""

    def __init__(self) -> None:
        self.beats: dict[UUID, Beat] = {}
        self._thread: SweepThread | None = None

    @property
    def waiting(self) -> Waiting:
        return self._thread.sweep.waiting if self._thread else Waiting()

    def stray_since(self, life: UUID) -> float:
        """Since when this worker runs a session that it does not hold; infinity while it does not."""
        return self._thread.strays.get(life, inf) if self._thread else inf

    def start(self) -> None:
        if self._thread:
            self._thread.leaves.set()
        self._thread = SweepThread(self)
        self._thread.start()

    def look_after(self, now: float) -> None:
        """Replace a thread that hangs. Should it go on after all, it ends with that turn."""
        if self._thread and now - self._thread.turned > STUCK_SECONDS:
            log.error("sweep.stuck", seconds=round(now - self._thread.turned))
            self.start()

    def stop(self, seconds: float) -> None:
        """Let the turn that runs come to its end, at most so long."""
        if self._thread:
            self._thread.leaves.set()
            self._thread.join(seconds)
            self._thread = None


class SweepThread(threading.Thread):
    def __init__(self, sweeper: Sweeper) -> None:
        super().__init__(name="sweep", daemon=True)
        self.sweeper = sweeper
        self.sweep = Sweep()
        self.leaves = threading.Event()
        self.turned = time.monotonic()
        self.strays: dict[UUID, float] = {}
        self._recorded: set[UUID] | None = None
        self._works = True

    def run(self) -> None:
        while not self.leaves.wait(SWEEP_SECONDS):
            self.turn()
            self.turned = time.monotonic()
        if not self.sweeper.beats:
            self._do(self._record_beats)
        connections.close_all()

    def turn(self) -> None:
        """Each part for itself, so that one row which cannot be moved does not keep the others from being seen."""
        done = [
            self._do(part) for part in (self._record_beats, self._find_strays, expire_due, self.sweep.ring_runnable)
        ]
        if all(done) and not self._works:
            self._works = True
            log.info("sweep.works_again")

    def _do(self, part: Callable[[], object]) -> bool:
        try:
            part()
        except Exception as error:
            self.sweep.waiting = Waiting()  # nobody can be blamed for not taking what we cannot see
            self.sweep.seen.clear()
            self.strays.clear()
            connections.close_all()
            if self._works:
                self._works = False
                log.warning("sweep.failed", error=type(error).__name__, message=str(error).partition("\n")[0][:200])
            return False
        return True

    def _record_beats(self) -> None:
        beats = dict(self.sweeper.beats)
        if beats:
            record_beats(beats)
        if self._recorded is None:
            record_vanished()
        if gone := (self._recorded or set()) - set(beats):
            Worker.objects.filter(pk__in=gone, ended_at=None).update(ended_at=clock.now())
        self._recorded = set(beats)

    def _find_strays(self) -> None:
        moment = time.monotonic()
        self.strays = {life: self.strays.get(life, moment) for life in find_strays(self.sweeper.beats)}


def find_strays(beats: dict[UUID, Beat]) -> set[UUID]:
    """Workers that have long been busy with a session which is not theirs any more: a call never came back."""
    long = {life: beat for life, beat in beats.items() if beat.session and (beat.busy or 0.0) > LONG_SECONDS}
    if not long:
        return set()
    names = [worker_name(beat.pid) for beat in long.values()]
    held = set(Session.objects.filter(state__in=LEASED, lease_owner__in=names).values_list("lease_owner", "id"))
    return {life for life, beat in long.items() if (worker_name(beat.pid), UUID(beat.session)) not in held}


def record_vanished() -> None:
    """Workers of an earlier supervisor in this very system, of whom no process is left: nobody else will say so."""
    rows = Worker.objects.filter(place=place(), ended_at=None) if place() else ()
    gone = [row.pk for row in rows if not _exists(row.pid)]
    Worker.objects.filter(pk__in=gone).update(ended_at=clock.now())


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@lru_cache(maxsize=1)
def place() -> str:
    """This running system and its numbering of processes; empty where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def record_beats(beats: dict[UUID, Beat]) -> None:
    """Write the workers' last heartbeats as rows, by the database's clock, and forget those of long ago."""
    now = clock.now()
    rows = [
        Worker(
            id=life,
            host=socket.gethostname()[:60],
            place=place(),
            supervisor=os.getpid(),
            pid=beat.pid,
            tasks=beat.begun,
            session=UUID(beat.session) if beat.session and beat.busy is not None else None,
            busy_since=None if beat.busy is None else now - timedelta(seconds=beat.busy),
            leaving=beat.leaving,
            started_at=now,
            beat_at=now,
        )
        for life, beat in beats.items()
    ]
    told = ["pid", "tasks", "session", "busy_since", "leaving", "beat_at"]
    Worker.objects.bulk_create(rows, update_conflicts=True, unique_fields=["id"], update_fields=told)
    Worker.objects.filter(beat_at__lt=now - FORGET).delete()
