"""What breaks at a fault point, and who decides: the injector of one schedule, by its own sequence of chances."""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import InterfaceError, OperationalError, connection

from cayu_runtime.core.points import AFTER_COMMIT, AFTER_TOOL, BEFORE_COMMIT, BEFORE_TOOL
from tests.proof.hands import Hand, Killed, backend_pid, current
from tests.proof.points import name_of

AT_POINTS = ("kill", "connection dropped", "acknowledgement lost, not committed", "acknowledgement lost", "stall")
IN_CHILDREN = ("SIGKILL", "SIGSTOP")
OTHERS = (
    "wake-up dropped",
    "wake-up delayed",
    "wake-up repeated",
    "clock jump",
    "rival decision",
    "late receipt",
    "expiry",
)
RESTART = "database restart"
KINDS = (*AT_POINTS, *OTHERS, *IN_CHILDREN, RESTART)

# What may break at which side of what.
FITS: dict[str, tuple[str, ...]] = {
    BEFORE_COMMIT: ("kill", "connection dropped", "acknowledgement lost, not committed", "stall"),
    AFTER_COMMIT: ("kill", "acknowledgement lost", "stall", "connection dropped"),
    BEFORE_TOOL: ("kill", "stall", "connection dropped"),
    AFTER_TOOL: ("kill", "stall", "connection dropped"),
}
# Points that nearly every step passes. At the others something breaks more often, so that each has its turn.
COMMON = {
    "core.lease.claim": 0.04,
    "core.rounds.record_step": 0.06,
    "services.session.start_session": 0.04,
    "core.dispatch.record_intent": 0.1,
    "core.dispatch.settle": 0.1,
    "core.perform.perform": 0.1,
    "core.decisions.decide": 0.06,
}
RARE = 0.3


@dataclass(slots=True)
class Injection:
    """One thing that was broken. `session` is the session it hit, `at` the schedule's time; `after` the seconds until
    its rows were true.
    """

    number: int
    kind: str
    where: str
    session: str
    at: float
    after: float | None = None


@dataclass(slots=True)
class Injector:
    chance: random.Random
    terminate: Callable[[int], None]
    restart: Callable[[], None]
    note: Callable[[str, str, str], None]
    muted: bool = True
    restart_due: bool = False
    reached: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    held: int = 0
    hold_at: str = ""

    def __call__(self, side: str) -> None:
        """At a point. Threads that are no hands (who renews leases, tools side by side) have their own rules."""
        name = name_of(sys._getframe(1), side)
        hand = current.get()
        if name.startswith("core.lease.renew"):
            raise OperationalError("no renewal gets through")  # a held hand stands for a stopped process
        self.reached[name] += 1
        if hand is not None and name == self.hold_at:
            self.hold_at = ""
            hand.hold(name)
            return
        if hand is None:
            return
        own = threading.current_thread() is hand
        if self.restart_due and own and side in (BEFORE_COMMIT, AFTER_COMMIT) and self.chance.random() < RARE:
            self.restart_due = False
            self._record("database restart", name, hand)
            self.restart()
            if side == AFTER_COMMIT:
                raise OperationalError("the server is gone")
            return
        if self.muted:
            return
        if self.chance.random() >= COMMON.get(name.partition(" ")[0], RARE):
            return
        kinds = [k for k in FITS[side] if own or k not in ("kill", "stall")]
        if self.held >= 2:
            kinds = [k for k in kinds if k != "stall"]
        if backend_pid() == 0:
            kinds = [k for k in kinds if k != "connection dropped"]
        if kinds:
            self._break(self.chance.choice(kinds), name, hand)

    def _record(self, kind: str, name: str, hand: Hand) -> None:
        self.broken[name] += 1
        self.note(kind, name, hand.session)

    def _break(self, kind: str, name: str, hand: Hand) -> None:
        self._record(kind, name, hand)
        if kind == "kill":
            raise Killed(name)
        if kind == "connection dropped":
            self.terminate(backend_pid())
        elif kind == "acknowledgement lost, not committed":
            cut()
        elif kind == "acknowledgement lost":
            cut()
            raise OperationalError("the answer to COMMIT never came")
        else:
            hand.hold(name)


def cut() -> None:
    """Close the socket under this thread's connection, without a word to the server."""
    link = connection.connection
    if link is not None and not link.closed:
        with socket.socket(fileno=os.dup(link.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)


DATABASE_ERRORS = (OperationalError, InterfaceError)
