"""The one clock. Leases and deadlines are judged by the database's time; Python's never decides (DESIGN §6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

_offset = timedelta(0)
_standing: datetime | None = None


def now() -> datetime:
    """The database's clock at this moment (not at the start of the transaction), plus the test offset. UTC."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {expression()}", [])
        return moment(cursor.fetchone()[0])


def expression() -> str:
    """The clock as part of a statement that has parameters; `moment` reads what it gave."""
    return "clock_timestamp()" if connection.vendor == "postgresql" else "strftime('%%Y-%%m-%%dT%%H:%%M:%%f', 'now')"


def moment(value: Any) -> datetime:
    read: datetime = value if isinstance(value, datetime) else datetime.fromisoformat(value).replace(tzinfo=UTC)
    return (_standing or read) + _offset


@contextmanager
def shifted(by: timedelta) -> Iterator[None]:
    """Move this process's clock for the length of a test."""
    global _offset
    before = _offset
    _offset = before + by
    try:
        yield
    finally:
        _offset = before


@contextmanager
def standing(at: datetime) -> Iterator[None]:
    """Stop this process's clock at a moment for the length of a test: it then moves by `shifted` alone."""
    global _standing
    before, _standing = _standing, at
    try:
        yield
    finally:
        _standing = before
