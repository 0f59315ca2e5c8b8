"""The raw driver's limit: the statements of one recorded lifecycle, sent again by psycopg or sqlite3 alone.

The same statements in the same transactions, each time for a new session: every identity that the recorded lifecycle
made is exchanged for a fresh one, before the clock runs. Each write must touch as many rows as it did when recorded.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
import uuid
from dataclasses import dataclass
from typing import Any, Protocol

from django.db import connection

from ..core.ids import new_id
from ..models import Session, ToolCall
from .recorder import Record, Statement

Parameters = list[Any] | None
HEX_ID = re.compile(r"[0-9a-f]{32}")
PLACEHOLDER = re.compile(r"(?<!%)%s")


class Driver(Protocol):
    """A connection of a plain driver. `send` runs one statement, fetches its rows and returns the count of rows."""

    def begin(self) -> None: ...

    def send(self, sql: str, parameters: Any) -> int: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class PlainPostgres:
    """psycopg as it comes, with prepared statements as our settings have them."""

    def __init__(self) -> None:
        import psycopg

        account: dict[str, Any] = connection.get_connection_params()
        for name in ("cursor_factory", "context"):
            account.pop(name, None)
        self._connection = psycopg.connect(**account, autocommit=True)
        self._cursor = self._connection.cursor()

    def begin(self) -> None:
        self._connection.autocommit = False

    def send(self, sql: str, parameters: Any) -> int:
        cursor = self._cursor.execute(sql, parameters)
        if cursor.description:
            cursor.fetchall()
        return cursor.rowcount

    def commit(self) -> None:
        self._connection.commit()
        self._connection.autocommit = True

    def close(self) -> None:
        self._connection.close()


class PlainSQLite:
    """sqlite3 as it comes, with the pragmas of our settings."""

    def __init__(self) -> None:
        options = connection.settings_dict["OPTIONS"]
        self._connection = sqlite3.connect(
            connection.settings_dict["NAME"], timeout=options["timeout"], isolation_level=None
        )
        self._connection.executescript(options["init_command"])

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def send(self, sql: str, parameters: Any) -> int:
        cursor = self._connection.execute(sql, parameters or ())
        cursor.fetchall()
        return cursor.rowcount

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


def plain_driver() -> Driver:
    return PlainPostgres() if connection.vendor == "postgresql" else PlainSQLite()


@dataclass(frozen=True, slots=True)
class Identities:
    """What names one lifecycle alone: its rows' ids, and the texts (session_id, operations) that are unique."""

    ids: tuple[uuid.UUID, ...]
    texts: tuple[str, ...]

    def exchange(self) -> dict[Any, Any]:
        """For each identity, in each spelling, a fresh one of the same kind and length."""
        fresh: dict[Any, Any] = {text: text[:-16] + secrets.token_hex(8) for text in self.texts}
        for old in self.ids:
            new = new_id()
            fresh |= {old: new, str(old): str(new), old.hex: new.hex}
        return fresh


def identities_of(session: Session, record: Record) -> Identities:
    """What a recorded lifecycle of this session made new."""
    values = [v for unit in record.units for statement in unit.statements for v in statement.parameters or ()]
    ids = {value for value in values if isinstance(value, uuid.UUID)}
    ids |= {uuid.UUID(value) for value in values if isinstance(value, str) and HEX_ID.fullmatch(value)}
    operations = ToolCall.objects.filter(session=session).values_list("operation_id", flat=True)
    return Identities(tuple(ids - {session.tenant_id}), (session.session_id, *operations))


class Replay:
    """One recorded lifecycle, ready to be sent any number of times."""

    def __init__(self, record: Record, identities: Identities, *, qmarks: bool) -> None:
        self._units = [
            (unit.transaction, [(_spelled(s, qmarks), s.rows if s.writes else -1) for s in unit.statements])
            for unit in record.units
        ]
        self._recorded = [statement.parameters for unit in record.units for statement in unit.statements]
        self._identities = identities
        self._pattern = re.compile("|".join(re.escape(key) for key in identities.exchange() if isinstance(key, str)))

    def fresh(self) -> list[Parameters]:
        """The parameters of one more lifecycle, statement by statement."""
        fresh = self._identities.exchange()

        def exchanged(value: Any) -> Any:
            if isinstance(value, str):
                return self._pattern.sub(lambda found: fresh[found[0]], value)
            return fresh.get(value, value) if isinstance(value, uuid.UUID) else value

        return [None if each is None else [exchanged(value) for value in each] for each in self._recorded]

    def send(self, driver: Driver, parameters: list[Parameters]) -> None:
        rest = iter(parameters)
        for transaction, statements in self._units:
            if transaction:
                driver.begin()
            for sql, rows in statements:
                touched = driver.send(sql, next(rest))
                if rows > 0 and touched != rows:
                    raise AssertionError(f"Replayed, this touched {touched} rows instead of {rows}: {sql[:200]}")
            if transaction:
                driver.commit()


def _spelled(statement: Statement, qmarks: bool) -> str:
    """The statement as this driver wants its placeholders."""
    if not qmarks or statement.parameters is None:
        return statement.sql
    return PLACEHOLDER.sub("?", statement.sql).replace("%%", "%")
