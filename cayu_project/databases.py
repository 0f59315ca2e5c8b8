"""DATABASES from a DATABASE_URL: which options make a commit durable and a write serialised, on either database."""

from pathlib import Path
from typing import Any

import environ

SQLITE = "django.db.backends.sqlite3"
POSTGRESQL = "django.db.backends.postgresql"

# One web process answers at most this many requests at once that hold a connection; the others wait, then fail loudly.
WEB_POOL = {"min_size": 1, "max_size": 16, "timeout": 10}


def database_from_url(url: str, *, base_dir: Path, process: str, durable: bool) -> dict[str, Any]:
    """One entry of DATABASES.

    `process` is "web", "worker" or "" (a command). A worker keeps its connection; the web keeps a pool of them, on
    SQLite one in each of its threads; a command nothing.
    `durable=False` is for tests alone: a power cut may then lose commits. A query parameter of the URL wins over
    an option chosen here (`?prepare_threshold=None` behind an old pgbouncer).
    """
    database: dict[str, Any] = environ.Env.db_url_config(url)
    options = {name: None if value == "None" else value for name, value in database.pop("OPTIONS", {}).items()}
    if database.get("ENGINE") == SQLITE:
        database["NAME"] = _absolute(database["NAME"], base_dir)
        database["OPTIONS"] = _sqlite_options(durable) | options
    elif database.get("ENGINE") == POSTGRESQL:
        database["OPTIONS"] = _postgresql_options(process) | options
    kept = process == "worker" or (process == "web" and database.get("ENGINE") == SQLITE)
    database.setdefault("CONN_MAX_AGE", None if kept else 0)
    return database


def _absolute(name: str, base_dir: Path) -> str:
    return name if name == ":memory:" else str(base_dir / name)


def _sqlite_options(durable: bool) -> dict[str, Any]:
    # IMMEDIATE is what serialises writers here: SQLite ignores select_for_update. Recursive triggers make a
    # REPLACE ask the append-only tables' triggers before it removes the row that it meets.
    synchronous = "FULL" if durable else "OFF"
    return {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": f"PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA recursive_triggers=ON;",
    }


def _postgresql_options(process: str) -> dict[str, Any]:
    options: dict[str, Any] = {"prepare_threshold": 3, "server_side_binding": True, "connect_timeout": 5}
    if process == "web":
        options["pool"] = dict(WEB_POOL)
    return options
