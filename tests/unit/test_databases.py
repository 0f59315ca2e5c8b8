"""DATABASE_URL to options: durable and serialised on either database, whatever the process."""

from pathlib import Path
from typing import Any

import pytest

from cayu_project.databases import database_from_url

BASE = Path("/srv/cayu")


def build(url: str, process: str = "", durable: bool = True) -> dict[str, Any]:
    return database_from_url(url, base_dir=BASE, process=process, durable=durable)


def test_sqlite_is_write_ahead_full_and_immediate() -> None:
    options = build("sqlite:///var/cayu.sqlite3")["OPTIONS"]
    assert options == {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA recursive_triggers=ON;",
    }


@pytest.mark.parametrize(
    "url, name",
    [
        ("sqlite:///var/cayu.sqlite3", "/srv/cayu/var/cayu.sqlite3"),
        ("sqlite:////data/cayu.sqlite3", "/data/cayu.sqlite3"),
        ("sqlite://:memory:", ":memory:"),
    ],
)
def test_a_relative_sqlite_path_starts_at_the_checkout_not_at_the_shell(url: str, name: str) -> None:
    assert build(url)["NAME"] == name


@pytest.mark.parametrize(
    "process, max_age, in_file, has_pool",
    [("web", 0, None, True), ("worker", None, None, False), ("", 0, 0, False)],
    ids=["web", "worker", "command"],
)
def test_each_kind_of_process_keeps_its_connections_in_its_own_way(
    process: str, max_age: int | None, in_file: int | None, has_pool: bool
) -> None:
    database = build("postgres://cayu:secret@db.internal:5433/cayu", process)
    assert database["CONN_MAX_AGE"] == max_age
    assert ("pool" in database["OPTIONS"]) is has_pool
    assert build("sqlite:///var/cayu.sqlite3", process)["CONN_MAX_AGE"] == in_file
    assert database["OPTIONS"]["prepare_threshold"] == 3
    assert database["OPTIONS"]["server_side_binding"] is True
    assert (database["HOST"], database["PORT"], database["NAME"]) == ("db.internal", 5433, "cayu")


def test_the_url_has_the_last_word_on_options() -> None:
    options = build("postgres://db/cayu?prepare_threshold=None&sslmode=require")["OPTIONS"]
    assert options["prepare_threshold"] is None
    assert options["sslmode"] == "require"


def test_a_unix_socket_is_a_path() -> None:
    database = build("postgres://postgres@//run/postgresql/cayu")
    assert (database["HOST"], database["NAME"], database["USER"]) == ("/run/postgresql", "cayu", "postgres")


def test_only_tests_may_give_up_durability() -> None:
    assert "synchronous=OFF" in build("sqlite:///x", durable=False)["OPTIONS"]["init_command"]
