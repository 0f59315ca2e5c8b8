"""The hands of a schedule, and what becomes of them: who works, who is held, who died, and what time it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from cayu_runtime.core import clock
from cayu_runtime.errors import CayuError
from cayu_runtime.models import EffectRecord, Worker
from cayu_runtime.worker.beats import worker_name
from tests.proof.agents import Scene
from tests.proof.faults import DATABASE_ERRORS, IN_CHILDREN, RESTART, Injection, Injector
from tests.proof.hands import PATIENCE, Hand, Killed, Stuck
from tests.proof.place import Place

IN_PROCESS = 20
LOCKED = "before commit"
BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)


class Wrong(AssertionError):
    """What the proof found. The message says what, and how to see it again."""


class Crew:
    def __init__(self, place: Place, seed: str) -> None:
        self.place = place
        self.chance = random.Random(seed)
        self.injector = Injector(random.Random(f"{seed}/faults"), place.terminate, self._restart, self._note)
        self.others = list(IN_CHILDREN)
        self.left_in_process = IN_PROCESS
        self.scene = Scene(place.downstream)
        self.injections: list[Injection] = []
        self.trace: list[str] = []
        self._shifts = ExitStack()
        self._ticks = 0.0
        self._latest = BEGINNING
        self._held: list[Hand] = []
        self._lives = 0
        self._mains_stale = False

    def assemble(self) -> None:
        self.workers = [Hand(f"worker-{n}") for n in range(3)]
        self.webs = [Hand(f"web-{n}") for n in range(2)]
        self.sweeper = Hand("sweeper")
        for hand in self.workers:
            self._new_life(hand)

    @property
    def time(self) -> float:
        """Seconds that this schedule let pass; jumps of the clock aside."""
        return self._ticks

    def _say(self, text: str) -> None:
        self.trace.append(f"{len(self.injections):3} {text}")

    def _note(self, kind: str, where: str, session: str) -> None:
        self.injections.append(Injection(len(self.injections) + 1, kind, where, session, self.time))
        if kind in (*IN_CHILDREN, RESTART):
            self.others.remove(kind)
        else:
            self.left_in_process -= 1
        self._say(f"*** {kind} at {where or 'rest'} of {session or 'nobody'}")
        if self.left_in_process <= 0:
            self.injector.muted = True

    def _tick(self, seconds: float) -> None:
        self._ticks += seconds
        self._shift(seconds)

    def _shift(self, seconds: float) -> None:
        self._shifts.enter_context(clock.shifted(timedelta(seconds=seconds)))
        self._latest = max(self._latest, clock.now())

    def _do(self, hand: Hand, session: str, work: Callable[[], Any], name: str = "") -> Any:
        """Let a hand do it. Returns (`done`, value) or (`raised`, error); None if it is held."""
        hand.session = session
        self.injector.held = len(self._held)
        self.injector.muted = self.left_in_process <= 0
        hand.begin(work)
        hand.until_rest()
        self.injector.muted = True
        return self._after(hand, name or "run")

    def _after(self, hand: Hand, name: str) -> Any:
        if self._mains_stale:
            self._mains_stale = False
            connection.close()
        if hand.held_at:
            self._held.append(hand)
            self._say(f"{hand.label} {name} {hand.session} is held at {hand.held_at}")
            if hand.held_at.endswith(LOCKED):
                self._free_the_row(hand)
            return None
        return self._ended(hand, name)

    def _ended(self, hand: Hand, name: str) -> Any:
        how, what = hand.outcome
        said = type(what).__name__ if how == "raised" else how
        self._say(f"{hand.label} {name} {hand.session}: {said}")
        if how == "raised" and not isinstance(what, (Killed, CayuError, *DATABASE_ERRORS)):
            raise Wrong(f"{name} of {hand.session} raised {said}: {what}") from what
        if isinstance(what, Killed) and hand in self.workers:
            self._died(hand)
        return hand.outcome

    def _free_the_row(self, hand: Hand) -> None:
        """It holds its session's row: nobody passes until it goes on, or the server ends its connection."""
        if self.chance.random() < 0.5:
            self.place.terminate(hand.backend)
            if self.chance.random() < 0.5:
                return  # its row is free, and it does not know
        self._go_on(hand)

    def _go_on(self, hand: Hand) -> None:
        self._held.remove(hand)
        self._say(f"{hand.label} goes on with {hand.session} from {hand.held_at}")
        hand.go_on()
        self._after(hand, "run")

    def _new_life(self, hand: Hand) -> None:
        hand.life = self._new_worker()

    def _new_worker(self) -> int:
        self._lives += 1
        host, _, _ = worker_name(self._lives).rpartition(":")
        now = clock.now()
        Worker.objects.create(
            host=host, supervisor=1, pid=self._lives, tasks=0, leaving=False, started_at=now, beat_at=now
        )
        return self._lives

    def _died(self, hand: Hand) -> None:
        self._end_life(hand.life)
        self._new_life(hand)

    def _end_life(self, life: int) -> None:
        Worker.objects.filter(pid=life).update(ended_at=clock.now())
        begun = EffectRecord.objects.filter(dispatched_by=worker_name(life)).values_list("dispatch_id", flat=True)
        for dispatch in self.scene.held.keys() & set(map(str, begun)):
            self.scene.lost.add(dispatch)
            self._let_go(dispatch)

    def _let_go(self, dispatch: str) -> None:
        """Let a slow tool go on, and wait until its own thread has said what it has to say."""
        self.injector.muted = self.left_in_process <= 0
        self.scene.held[dispatch].set()
        thread = self.scene.threads[dispatch]
        thread.join(PATIENCE)
        if thread.is_alive():
            raise Stuck("a late outcome is never recorded")
        self.injector.muted = True
        del self.scene.held[dispatch]

    def _restart(self) -> None:
        self.place.restart(self.chance.choice(("INT", "QUIT")))
        self._mains_stale = True
        for hand in (*self.workers, *self.webs, self.sweeper):
            hand.reconnect()
