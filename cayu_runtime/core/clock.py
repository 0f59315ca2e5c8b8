"""The one clock. Leases and deadlines are judged by the database's time; Python's never decides (DESIGN §6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from django.db import connection

_offset = timedelta(0)


def now() -> datetime:
    """The database's clock at this moment (not at the start of the transaction), plus the test offset. UTC."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT clock_timestamp()")
            moment = cursor.fetchone()[0]
        else:
            cursor.execute("SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')")
            moment = datetime.fromisoformat(cursor.fetchone()[0]).replace(tzinfo=UTC)
    result: datetime = moment + _offset
    return result


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
