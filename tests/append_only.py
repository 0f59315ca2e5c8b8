"""Transactional tests end with a flush; the deny triggers of append-only tables are away for it and nothing else."""

from typing import Any

import pytest
from django.db import connections
from django.db.backends.base.operations import BaseDatabaseOperations


def allow_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    execute = BaseDatabaseOperations.execute_sql_flush

    def execute_sql_flush(operations: BaseDatabaseOperations, sql_list: list[str]) -> None:
        connection = connections[operations.connection.alias]
        execute(operations, without_triggers(connection, sql_list))

    monkeypatch.setattr(BaseDatabaseOperations, "execute_sql_flush", execute_sql_flush)


def without_triggers(connection: Any, statements: list[str]) -> list[str]:
    """`statements` between those that lift the triggers and put them back: all are to run in one transaction.

    On PostgreSQL only a superuser may do this, so TEST_DATABASE_URL must name one.
    """
    if connection.vendor == "postgresql":
        return ["SET LOCAL session_replication_role = replica", *statements]
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'cayu_append_only_*'")
        triggers = cursor.fetchall()
    return [*(f'DROP TRIGGER "{name}"' for name, _ in triggers), *statements, *(sql for _, sql in triggers)]
