"""The demo ledger's file: what a refund is, and every statement on the tables."""

import re
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

LIST_LIMIT = 100

SCHEMA = """
CREATE TABLE IF NOT EXISTS refunds (
    refund_id TEXT NOT NULL UNIQUE, idempotency_key TEXT NOT NULL UNIQUE, order_id TEXT NOT NULL,
    amount TEXT NOT NULL, reason TEXT NOT NULL, booked_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS refunds_by_order ON refunds (order_id);
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT, idempotency_key TEXT, order_id TEXT, fault TEXT, arrived_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS bars (idempotency_key TEXT PRIMARY KEY, barred_at TEXT NOT NULL);
"""


class BadRequest(Exception):
    """The message is the sentence that the client gets with a 400."""


@dataclass(frozen=True)
class Order:
    """What a client wants booked. Two orders are the same if all three fields are."""

    order_id: str
    amount: str
    reason: str

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> "Order":
        if set(fields) - {"order_id", "amount", "reason"}:
            raise BadRequest("Send only order_id, amount and reason.")
        order_id = text_field(fields, "order_id", limit=100)
        if not order_id.strip():
            raise BadRequest("order_id must not be empty.")
        return cls(order_id, _amount(fields.get("amount")), text_field(fields, "reason", limit=1000))


@dataclass(frozen=True)
class Refund:
    refund_id: str
    idempotency_key: str
    order_id: str
    amount: str
    reason: str
    booked_at: str

    def answer(self) -> dict[str, Any]:
        return {**asdict(self), "status": "booked"}

    def repeats(self, order: Order) -> bool:
        return Order(self.order_id, self.amount, self.reason) == order


def text_field(fields: dict[str, Any], name: str, limit: int) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not _storable(value):
        raise BadRequest(f"{name} must be a text.")
    if len(value) > limit:
        raise BadRequest(f"{name} must have at most {limit} characters.")
    return value


def _storable(value: str) -> bool:
    """Neither NUL nor half a surrogate pair, which SQLite cannot keep as they are."""
    return "\0" not in value and not re.search("[\ud800-\udfff]", value)


def _amount(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,2})?", value) or Decimal(value) == 0:
        raise BadRequest('amount must be a text with a positive number and at most 2 decimals, such as "25.50".')
    return f"{Decimal(value):.2f}"


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


class File:
    """The file. Safe to use from any thread; each call opens its own connection."""

    schema: str

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(self.schema)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=20, isolation_level=None)
        connection.row_factory = sqlite3.Row
        try:
            connection.execute("PRAGMA synchronous=FULL")
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the write lock from its start: what it reads stays true until it commits."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")


class Ledger(File):
    """Refunds, and every statement about them."""

    schema = SCHEMA

    def ping(self) -> None:
        with self._connection() as connection:
            connection.execute("SELECT 1 FROM refunds LIMIT 1")

    def record_request(self, key: str | None, order_id: str | None, fault: str | None) -> bool:
        """Whether this order had the same fault before."""
        with self._writing() as connection:
            asked = "SELECT 1 FROM requests WHERE order_id = ? AND fault = ? LIMIT 1"
            again = connection.execute(asked, (order_id, fault)).fetchone() is not None
            connection.execute(
                "INSERT INTO requests (idempotency_key, order_id, fault, arrived_at) VALUES (?, ?, ?, ?)",
                (key, order_id, fault, utc_now()),
            )
        return again

    def book(self, key: str, order: Order) -> tuple[int, dict[str, Any]]:
        with self._writing() as connection:
            recorded = _find(connection, key)
            if recorded is not None and recorded.repeats(order):
                return 200, {**recorded.answer(), "replayed": True}
            if recorded is not None:
                return 409, {"error": "This Idempotency-Key was used for another refund. Use a new key."}
            if _is_barred(connection, key):
                return 410, {"error": "This Idempotency-Key is barred and can never be booked. Use a new key."}
            refund = Refund(f"rf_{uuid.uuid4().hex}", key, order.order_id, order.amount, order.reason, utc_now())
            connection.execute(
                "INSERT INTO refunds (refund_id, idempotency_key, order_id, amount, reason, booked_at)"
                " VALUES (:refund_id, :idempotency_key, :order_id, :amount, :reason, :booked_at)",
                asdict(refund),
            )
        return 201, {**refund.answer(), "replayed": False}

    def bar(self, key: str) -> Refund | None:
        """Bar the key for ever, or return the refund that already stands under it."""
        with self._writing() as connection:
            refund = _find(connection, key)
            if refund is None:
                connection.execute(
                    "INSERT OR IGNORE INTO bars (idempotency_key, barred_at) VALUES (?, ?)", (key, utc_now())
                )
            return refund

    def look_up(self, key: str) -> tuple[Refund | None, bool]:
        """The refund under the key, and whether the key is barred, both as of one moment."""
        with self._connection() as connection:
            connection.execute("BEGIN")
            return _find(connection, key), _is_barred(connection, key)

    def of_order(self, order_id: str) -> list[Refund]:
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT * FROM refunds WHERE order_id = ? ORDER BY rowid DESC LIMIT ?", (order_id, LIST_LIMIT)
            )
            return [Refund(**row) for row in rows]

    def newest(self) -> list[Refund]:
        with self._connection() as connection:
            rows = connection.execute("SELECT * FROM refunds ORDER BY rowid DESC LIMIT ?", (LIST_LIMIT,))
            return [Refund(**row) for row in rows]


def _find(connection: sqlite3.Connection, key: str) -> Refund | None:
    row = connection.execute("SELECT * FROM refunds WHERE idempotency_key = ?", (key,)).fetchone()
    return row and Refund(**row)


def _is_barred(connection: sqlite3.Connection, key: str) -> bool:
    return connection.execute("SELECT 1 FROM bars WHERE idempotency_key = ?", (key,)).fetchone() is not None
