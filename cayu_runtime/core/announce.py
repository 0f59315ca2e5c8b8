"""On PostgreSQL listeners are told after each commit which session has events up to where.

A NOTIFY inside a durable transaction would make commits wait for each other's flush (docs/benchmark.md). So a thread
of this process sends it afterwards, in a transaction that need not be durable. It is a hint: a crash may lose one, and
what a burst makes of one session is told once. Listeners look at the rows, and again after a while.
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from typing import Any
from uuid import UUID

import psycopg
import structlog
from django.db import connection

CHANNEL = "cayu_events"

log = structlog.get_logger(__name__)


def announce(tenant: UUID, session: UUID, seq: int) -> None:
    """Tell listeners soon that this session's events go up to `seq`. Never fails, never waits for the database."""
    if connection.vendor != "postgresql":
        return
    try:
        _announcer(os.getpid()).tell(tenant, session, seq)
    except RuntimeError as error:  # no thread could be started
        log.warning("announcement.lost", error=str(error), count=1)


class _Announcer:
    """One thread with one connection. Of each session only the newest place is told."""

    def __init__(self) -> None:
        self._places: dict[tuple[UUID, UUID], int] = {}
        self._changed = threading.Condition()
        self._parameters: dict[str, Any] = connection.get_connection_params()
        threading.Thread(target=self._run, name="announcer", daemon=True).start()

    def tell(self, tenant: UUID, session: UUID, seq: int) -> None:
        with self._changed:
            self._places[tenant, session] = max(seq, self._places.get((tenant, session), 0))
            self._changed.notify()

    def _run(self) -> None:
        link: psycopg.Connection | None = None
        while True:
            notes = self._next()
            try:
                if link is None or link.closed:
                    link = psycopg.connect(**{**self._parameters, "autocommit": True})
                    link.execute("SET synchronous_commit = off")
                link.execute("SELECT pg_notify(%s, note) FROM unnest(%s::text[]) AS note", [CHANNEL, notes])
            except psycopg.Error as error:
                log.warning("announcement.lost", error=type(error).__name__, count=len(notes))
                link = None

    def _next(self) -> list[str]:
        with self._changed:
            while not self._places:
                self._changed.wait()
            places, self._places = self._places, {}
        return [f"{tenant}:{session}:{seq}" for (tenant, session), seq in places.items()]


@lru_cache(maxsize=1)
def _announcer(process: int) -> _Announcer:
    """Threads do not survive a fork, so each process makes its own."""
    return _Announcer()
