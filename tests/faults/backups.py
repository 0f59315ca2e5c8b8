"""A backup of the test database, and its restore: the file itself on SQLite, a template on PostgreSQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
from django.db import connection, connections
from psycopg import sql


class Backup:
    """`take` may be called while others are connected; `restore` ends their connections, as an operator would."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "backup.sqlite3"
        self.name = str(connection.settings_dict["NAME"])
        self.template = f"{Path(self.name).name}_backup"

    def take(self) -> None:
        connections.close_all()
        if connection.vendor == "sqlite":
            with closing(sqlite3.connect(self.name)) as source, closing(sqlite3.connect(self.file)) as copy:
                source.backup(copy)
        else:
            self._copy(self.name, self.template)

    def restore(self) -> None:
        connections.close_all()
        if connection.vendor == "sqlite":
            for end in ("", "-wal", "-shm"):
                Path(f"{self.name}{end}").unlink(missing_ok=True)
            Path(self.name).write_bytes(self.file.read_bytes())
        else:
            self._copy(self.template, self.name)

    def forget(self) -> None:
        connections.close_all()
        if connection.vendor == "postgresql":
            with self._server() as server:
                server.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(self.template)))

    def _copy(self, source: str, target: str) -> None:
        names = {"source": sql.Identifier(source), "target": sql.Identifier(target)}
        with self._server() as server:
            for name in (source, target):
                server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {target}").format(**names))
            server.execute(sql.SQL("CREATE DATABASE {target} TEMPLATE {source}").format(**names))

    def _server(self) -> psycopg.Connection:
        parameters = {**connection.get_connection_params(), "dbname": "postgres", "autocommit": True}
        parameters.pop("cursor_factory", None)
        parameters.pop("context", None)
        return psycopg.connect(**parameters)
