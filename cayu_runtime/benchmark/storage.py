"""What the database holds, and which processes serve it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psutil
from django.db import connection

from .lifecycle import Engine

BY_TABLE = """
SELECT relname, pg_total_relation_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname LIKE 'cayu_runtime%%'
"""


def storage(engine: Engine) -> Callable[[], dict[str, Any]]:
    """Bytes of the runtime's tables with their indexes and TOAST, the queue's aside; by table where that is told."""
    return _postgres_storage if connection.vendor == "postgresql" else _sqlite_storage


def _postgres_storage() -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(BY_TABLE, [])
        tables = dict(cursor.fetchall())
    return {"bytes": sum(tables.values()), "tables": tables}


def _sqlite_storage() -> dict[str, Any]:
    """Pages in use, after the wake-ups that nobody fetched are away."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_q_ormq")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.fetchall()
        pages, free, size = (_pragma(cursor, name) for name in ("page_count", "freelist_count", "page_size"))
    return {"bytes": (pages - free) * size, "tables": {}}


def _pragma(cursor: Any, name: str) -> int:
    cursor.execute(f"PRAGMA {name}")
    value: int = cursor.fetchone()[0]
    return value


def server(engine: Engine) -> Callable[[], dict[str, Any]]:
    """The database's version, and the process above all that serve it, if it runs on this machine."""

    def run() -> dict[str, Any]:
        with connection.cursor() as cursor:
            if connection.vendor != "postgresql":
                cursor.execute("SELECT sqlite_version()")
                return {"version": f"SQLite {cursor.fetchone()[0]}", "pid": None}
            cursor.execute("SELECT current_setting('server_version'), pg_backend_pid(), inet_server_addr() IS NULL")
            version, backend, local = cursor.fetchone()
        return {"version": f"PostgreSQL {version}", "pid": _parent_of(backend) if local else None}

    return run


def _parent_of(backend: int) -> int | None:
    try:
        process = psutil.Process(backend)
        return process.ppid() if "postgres" in process.name() else None
    except psutil.NoSuchProcess:
        return None
