"""What a piece of work sends to the database: every statement, and where its transactions end.

BEGIN and COMMIT are no statements here (SQLite's backend sends the first as one, PostgreSQL's driver does not show it).
A commit counts when its transaction wrote something; a write outside a transaction is a commit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

READS = ("SELECT", "PRAGMA", "SHOW", "SAVEPOINT", "RELEASE", "ROLLBACK")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as Django hands it to the driver. `rows` is the driver's count afterwards (-1: it does not say)."""

    sql: str
    parameters: Any
    rows: int

    @property
    def writes(self) -> bool:
        return not self.sql.lstrip().upper().startswith(READS)


@dataclass(slots=True)
class Unit:
    """The statements of one transaction, or one statement outside of any."""

    statements: list[Statement]
    transaction: bool
    committed: bool = False

    @property
    def wrote(self) -> bool:
        return self.committed and any(statement.writes for statement in self.statements)


@dataclass(slots=True)
class Record:
    """What was sent, in order. `mark` remembers how many commits there were at some moment."""

    units: list[Unit] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)

    @property
    def statements(self) -> int:
        return sum(len(unit.statements) for unit in self.units)

    @property
    def commits(self) -> int:
        return sum(unit.wrote for unit in self.units)

    def mark(self, name: str) -> None:
        self.marks.setdefault(name, self.commits)

    def between(self, first: str, last: str) -> int:
        """How many commits there were between two marks."""
        return self.marks[last] - self.marks[first]


@contextmanager
def recording(alias: str = "default") -> Iterator[Record]:
    """Record what this thread sends over its connection, and tools over connections that they open meanwhile."""
    connection = connections[alias]
    record = Record()
    recorder = _Recorder(connection, record)

    def opened(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
        """A connection of another thread, which lives no longer than its tool; the holder waits for it."""
        if connection.alias == alias and connection not in known:
            known.append(connection)
            joined = _Recorder(connection, record)
            connection.execute_wrappers.append(joined.execute)
            _tell_of_the_end(connection, joined)

    known = [connection]
    connection_created.connect(opened)
    try:
        with connection.execute_wrapper(recorder.execute), _told_of_the_end(connection, recorder):
            yield record
    finally:
        connection_created.disconnect(opened)


class _Recorder:
    def __init__(self, connection: BaseDatabaseWrapper, record: Record) -> None:
        self._connection = connection
        self._record = record
        self._open: Unit | None = None

    def execute(
        self, execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        result = execute(sql, parameters, many, context)
        if sql.startswith("BEGIN"):
            return result
        sent = [Statement(sql, each, -1) for each in parameters] if many else []
        for statement in sent or [Statement(sql, parameters, context["cursor"].rowcount)]:
            self._add(statement)
        return result

    def _add(self, statement: Statement) -> None:
        if not self._connection.in_atomic_block:
            self._record.units.append(Unit([statement], transaction=False, committed=True))
            return
        if self._open is None:
            self._open = Unit([], transaction=True)
            self._record.units.append(self._open)
        self._open.statements.append(statement)

    def end(self, *, committed: bool) -> None:
        if self._open is not None:
            self._open.committed = committed
        self._open = None


@contextmanager
def _told_of_the_end(connection: BaseDatabaseWrapper, recorder: _Recorder) -> Iterator[None]:
    _tell_of_the_end(connection, recorder)
    try:
        yield
    finally:
        del connection.commit, connection.rollback


def _tell_of_the_end(connection: BaseDatabaseWrapper, recorder: _Recorder) -> None:
    commit, rollback = connection.commit, connection.rollback

    def told_commit() -> None:
        commit()
        recorder.end(committed=True)

    def told_rollback() -> None:
        rollback()
        recorder.end(committed=False)

    connection.commit, connection.rollback = told_commit, told_rollback  # type: ignore[method-assign]
