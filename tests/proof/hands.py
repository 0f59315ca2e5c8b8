"""Hands: threads that do one piece of work at a time, as a worker or a person's web process would, one after another.

Only one hand moves at any time. It runs until its work is done or until it is held at a fault point; the schedule then
decides who moves next. So a schedule is the same each time that its seed is the same, whatever the machine does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from django.db import connection, connections

PATIENCE = 60.0
current: ContextVar[Hand | None] = ContextVar("hand", default=None)


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the program handles it."""


class Stuck(AssertionError):
    """A hand neither ended nor came to its point: somebody waits for somebody."""


class Hand(threading.Thread):
    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.label = name
        self.life = 0
        self.session = ""
        self.held_at = ""
        self.backend = 0
        self.outcome: Any = None
        self.busy = False
        self._stale = False
        self._work: Callable[[], Any] | None = None
        self._go, self._rest = threading.Event(), threading.Event()
        self._told: BaseException | None = None
        self.start()

    def begin(self, work: Callable[[], Any]) -> None:
        assert not self.busy, f"{self.label} is busy"
        self.busy, self.outcome, self._work = True, None, work
        self._rest.clear()
        self._go.set()

    def until_rest(self) -> None:
        """Until the work is done or held."""
        if not self._rest.wait(PATIENCE):
            raise Stuck(f"{self.label} hangs with session {self.session}")

    def do(self, work: Callable[[], Any]) -> Any:
        self.begin(work)
        self.until_rest()
        return self.outcome

    def hold(self, point: str) -> None:
        """Called by the hand itself, at a point: wait until the schedule lets it go on."""
        self.held_at = point
        self.backend = backend_pid()
        self._go.clear()
        self._rest.set()
        self._go.wait()
        self._go.clear()
        self.held_at = ""
        if self._told is not None:
            told, self._told = self._told, None
            raise told

    def go_on(self, told: BaseException | None = None) -> Any:
        """Let a held hand go on (or raise `told` there), until it rests again."""
        self._told = told
        self._rest.clear()
        self._go.set()
        self.until_rest()
        return self.outcome

    def reconnect(self) -> None:
        """Before its next work: the server that its connection went to is gone."""
        self._stale = True

    def run(self) -> None:
        current.set(self)
        while True:
            self._go.wait()
            self._go.clear()
            if self._work is None:
                return
            if self._stale:
                self._stale = False
                connections.close_all()
            try:
                self.outcome = ("done", self._work())
            except BaseException as error:
                self.outcome = ("raised", error)
                connections.close_all()
            self.busy = False
            self._rest.set()

    def leave(self) -> None:
        if self.busy:
            return
        self.do(connections.close_all)
        self._work = None
        self._go.set()
        self.join(PATIENCE)


def backend_pid() -> int:
    """The server process of this thread's connection; 0 where there is none."""
    link = connection.connection
    return 0 if link is None or link.closed else int(link.info.backend_pid)
