"""Two transitions on one session in a fixed order: the first is held at its commit until the second is seen to wait.

No sleep decides anything: the database does, by `pg_blocking_pids`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections

from cayu_runtime.core import transitions

PATIENCE = 10.0


class Rival(threading.Thread):
    """One side of a race, on its own connection. `outcome` is what it returned or raised."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.pid = 0
        self.ready = threading.Event()
        self.outcome: Any = None

    def run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '5s'")
                cursor.execute("SELECT pg_backend_pid()")
                self.pid = cursor.fetchone()[0]
            self.ready.set()
            self.outcome = self.work()
        except Exception as error:
            self.outcome = error
        finally:
            self.ready.set()
            connections.close_all()

    def result(self) -> Any:
        self.join(PATIENCE)
        assert not self.is_alive(), "a rival never ended"
        return self.outcome


def race(monkeypatch: pytest.MonkeyPatch, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """Run both; `first` has written everything and not committed when `second` begins and is seen to wait for it."""
    at_commit, go = threading.Event(), threading.Event()
    commit = transitions.Change.commit
    leader = Rival(first)

    def held(change: transitions.Change) -> None:
        commit(change)
        if threading.current_thread() is leader and not at_commit.is_set():
            at_commit.set()
            assert go.wait(PATIENCE)

    with monkeypatch.context() as patch:
        patch.setattr(transitions.Change, "commit", held)
        leader.start()
        assert at_commit.wait(PATIENCE), f"the first never came to its commit: {leader.outcome!r}"
        follower = Rival(second)
        follower.start()
        follower.ready.wait(PATIENCE)
        wait_until_blocked(follower, by=leader)
        go.set()
        return leader.result(), follower.result()


def wait_until_blocked(rival: Rival, *, by: Rival) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with connection.cursor() as cursor:
            cursor.execute("SELECT %s = ANY(pg_blocking_pids(%s))", [by.pid, rival.pid])
            if cursor.fetchone()[0]:
                return
    raise AssertionError(f"the database never reported the second as blocked: {rival.outcome!r}")


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """`count` rivals that start at one moment."""
    start = threading.Barrier(count)

    def one(number: int) -> Callable[[], Any]:
        def run() -> Any:
            start.wait(PATIENCE)
            return work(number)

        return run

    rivals = [Rival(one(number)) for number in range(count)]
    for rival in rivals:
        rival.start()
    return [rival.result() for rival in rivals]
