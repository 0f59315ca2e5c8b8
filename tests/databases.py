"""pytest plugin: which database the tests run on, and what is done with a test that cannot run here.

`--database=sqlite|postgres` (sqlite if not said). The server is started once, by the process that was called, before
Django's settings are read; xdist's workers find it in their environment and each makes a test database of its own.

A test that needs what is missing (marker `postgres`, `chromium`) is left out, with the reason, and counted in the last
lines; CAYU_TEST_REQUIRE=postgres,chromium turns a missing one into a failure.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import find_chromium
from tests.postgres import PostgresMissing, PostgresServer

# How a worker process learns what its controller found: the server's URL, or the sentence that says why there is none.
SERVER_URL = "CAYU_TEST_SERVER_URL"
SERVER_MISSING = "CAYU_TEST_SERVER_MISSING"

# What the settings read in tests, whatever the shell around says.
ENVIRONMENT = {
    "ALLOWED_HOSTS": "localhost,127.0.0.1",
    "CAYU_ALLOW_SQLITE": "1",
    "CAYU_DEMO": "1",
    "CAYU_ENV_FILE": "",
    "DATABASE_URL": "sqlite://:memory:",  # the test database is a file of each process: tests/conftest.py
    "SECRET_KEY": "known to everybody, for tests alone: not a key for anything that lasts",
}

FOLDER_MARKERS = ("unit", "db", "race", "faults", "conformance", "api", "web", "e2e", "architecture")

_server: PostgresServer | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="The database the tests run on. PostgreSQL comes from TEST_DATABASE_URL, else from a wheel.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Before pytest-django reads the settings: they come from the environment."""
    options = parser.parse_known_args(args)
    for name in list(os.environ):
        if name.startswith("CAYU_") and not name.startswith("CAYU_TEST_"):
            del os.environ[name]
    os.environ.pop("DEBUG", None)
    os.environ.update(ENVIRONMENT)
    os.environ.setdefault("CAYU_TEST_DURABILITY_OFF", "1")
    if options.database == "postgres" and not (options.help or options.version or options.collectonly):
        _use_postgres()


def _use_postgres() -> None:
    global _server
    if not (SERVER_URL in os.environ or SERVER_MISSING in os.environ):
        if url := os.environ.get("TEST_DATABASE_URL"):
            os.environ[SERVER_URL] = url
        else:
            try:
                _server = PostgresServer(durable=os.environ["CAYU_TEST_DURABILITY_OFF"] == "0")
                os.environ[SERVER_URL] = _server.url
            except PostgresMissing as missing:
                os.environ[SERVER_MISSING] = str(missing)
    if SERVER_URL in os.environ:
        os.environ["DATABASE_URL"] = os.environ[SERVER_URL]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _server is not None:
        _server.stop()


def pytest_report_header(config: pytest.Config) -> str:
    if SERVER_MISSING in os.environ:
        return f"database: none ({os.environ[SERVER_MISSING]})"
    return f"database: {config.getoption('database')}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test's folder is its first marker."""
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
        if folder in FOLDER_MARKERS:
            item.add_marker(getattr(pytest.mark, folder))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if missing := _what_is_missing(item):
        requirement, reason = missing
        required = os.environ.get("CAYU_TEST_REQUIRE", "").split(",")
        if requirement in [name.strip() for name in required]:
            pytest.fail(f"required by CAYU_TEST_REQUIRE, but missing: {reason}", pytrace=False)
        pytest.skip(reason)


def _what_is_missing(item: pytest.Item) -> tuple[str, str] | None:
    database = item.config.getoption("database")
    if SERVER_MISSING in os.environ and database == "postgres":
        return "postgres", f"no PostgreSQL: {os.environ[SERVER_MISSING]}"
    if database == "sqlite" and item.get_closest_marker("postgres"):
        return "postgres", "needs PostgreSQL: run pytest --database=postgres"
    if database == "postgres" and item.get_closest_marker("sqlite"):
        return "sqlite", "is about SQLite: run pytest --database=sqlite"
    if item.get_closest_marker("chromium") and not find_chromium():
        return "chromium", "no Chromium: install the package chromium, or set CHROMIUM to its path"
    return None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """How many tests were left out, and why, in one place (`-rs` above names each), for all runs of one `make test`."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    lines = [f"Left out on {config.getoption('database')}: {reasons.total() or 'nothing'}"]
    lines += [f"  {count} × {reason}" for reason, count in reasons.most_common()]
    if record := os.environ.get("CAYU_TEST_LEFT_OUT"):
        with Path(record).open("a+", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.seek(0)
            lines = file.read().splitlines()
    for line in lines:
        terminalreporter.write_line(line)


def _reason(report: Any) -> str:
    where = report.longrepr  # (file, line, reason) of a skip; an expected failure has none
    return str(where[2] if isinstance(where, tuple) else where).removeprefix("Skipped: ")
