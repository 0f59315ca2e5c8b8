"""Where schedules run: a PostgreSQL of our own that may be restarted, the downstream's file, the nursery."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from cayu_runtime.core import execution, results
from tests.proof.downstream import Downstream
from tests.proof.nursery import Nursery

PATIENCE = 20.0


class Place:
    def __init__(self, server: Any, parameters: dict[str, Any], downstream: Downstream, nursery: Nursery) -> None:
        self.server, self.downstream, self.nursery = server, downstream, nursery
        self._parameters = parameters
        self._link: psycopg.Connection[Any] | None = None

    @classmethod
    def open(cls, server: Any, folder: Path) -> Place:
        """Forks the nursery first, while this process has one thread and no connection."""
        downstream = Downstream(folder / "downstream.sqlite3")
        downstream.create()
        execution.RETRY_SECONDS = 0.02  # a connection that was dropped is replaced at once
        settings.CAYU_AUTHORITY = "tests.machine.Everybody"
        importlib.import_module("cayu_runtime.providers.rules")
        results.as_history([])  # what takes long to load and to build is there before anybody forks
        nursery = Nursery(downstream.path)
        parameters = connection.get_connection_params()
        parameters = {name: parameters[name] for name in ("host", "user", "password") if parameters.get(name)}
        with psycopg.connect(**parameters, dbname="postgres", autocommit=True) as link:
            link.execute(f"CREATE DATABASE {connection.settings_dict['NAME']}")
        call_command("migrate", verbosity=0)
        return cls(server, {**parameters, "dbname": connection.settings_dict["NAME"]}, downstream, nursery)

    def _ask(self, sql: str, *values: Any) -> list[Any]:
        if self._link is None or self._link.closed:
            self._link = psycopg.connect(**self._parameters, autocommit=True)
        return self._link.execute(sql, values).fetchall()

    def empty(self) -> None:
        """No row of an earlier schedule."""
        self.downstream.empty()
        tables = ", ".join(
            name for name in connection.introspection.table_names() if name.startswith(("cayu_runtime_", "django_q_"))
        )
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
            cursor.execute(f"TRUNCATE {tables} CASCADE")
            cursor.execute("SET session_replication_role = DEFAULT")

    def terminate(self, backend: int) -> None:
        """The server ends this connection; returns when it has."""
        self._ask("SELECT pg_terminate_backend(%s, 5000)", backend)

    def backends(self) -> set[int]:
        return {pid for (pid,) in self._ask("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")}

    def until_blocked_by(self, leader: int, busy: Callable[[], bool]) -> None:
        """Until somebody waits for a lock of `leader`, or is done without."""
        end = time.monotonic() + PATIENCE
        sql = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        while busy() and not self._ask(sql, leader):
            if time.monotonic() > end:
                raise AssertionError("the database never reported the second as blocked")

    def restart(self, how: str) -> None:
        self.server.restart(how)
        self._link = None

    def close(self) -> None:
        self.nursery.close()
        connection.close()
        if self._link is not None:
            self._link.close()
