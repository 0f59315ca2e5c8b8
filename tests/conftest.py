"""Fixtures for all tests. Where the database comes from: tests/databases.py; what is skipped and why: there too."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings as django_settings
from django.db import connection
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker

from cayu_runtime import registry
from tests.append_only import allow_flush
from tests.chromium import FLAGS, find_chromium

# A busy machine is no finding: how long an example takes is never what a test is about.
hypothesis_settings.register_profile("untimed", deadline=None)
hypothesis_settings.load_profile("untimed")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """On SQLite the test database is a file, one for each process: threads and child processes share no memory."""
    database = django_settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        database["TEST"] = {
            **database.get("TEST", {}),
            "NAME": str(tmp_path_factory.mktemp("database") / "test.sqlite3"),
        }


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """PostgreSQL drops no database that somebody is connected to, and the announcer keeps its connection."""
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            cursor.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


@pytest.fixture(scope="session", autouse=True)
def flush_spares_no_table() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        allow_flush(monkeypatch)
        yield


@pytest.fixture(autouse=True)
def agents_of_one_test() -> Iterator[None]:
    """What a test registers is gone after it: the checks at start look at all agents of the process."""
    known = registry.agents()
    before = dict(known)
    yield
    known.clear()
    known.update(before)


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Django's own hasher is slow on purpose; who tests passwords says so by `settings`."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(
            django_settings, "PASSWORD_HASHERS", ["django.contrib.auth.hashers.MD5PasswordHasher"], raising=True
        )
        yield


def database_url() -> str:
    """DATABASE_URL of this process's test database."""
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{database['NAME']}"
    host = database["HOST"] or database["OPTIONS"].get("host", "")
    account = quote(database["USER"], safe="")
    if database["PASSWORD"]:
        account += ":" + quote(database["PASSWORD"], safe="")
    port = f":{database['PORT']}" if database["PORT"] else ""
    if host.startswith("/"):
        return f"postgres://{account}@{port}/{host}/{database['NAME']}"
    return f"postgres://{account}@{host}{port}/{database['NAME']}"


def environment_of_children() -> dict[str, str]:
    """The environment of a child process (`manage.py …`, uvicorn) that works on this test's database."""
    return {
        **os.environ,
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "cayu_project.settings",
        "CAYU_INSECURE_COOKIES": "1",
        "PYTHONPATH": str(Path(__file__).parent.parent),
    }


@pytest.fixture
def live_database_url(transactional_db: None) -> str:
    """DATABASE_URL of this process's test database, for a child process. What the test commits, the child sees."""
    return database_url()


@pytest.fixture
def child_environment(live_database_url: str) -> dict[str, str]:
    return environment_of_children()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium for the tests of one module; mark them `chromium`.

    Playwright's loop runs in this thread as long as the browser does, and Django refuses the ORM beside a running loop
    unless told that nothing is shared; so a browser lives no longer than its module.
    """
    from playwright.sync_api import sync_playwright

    with pytest.MonkeyPatch.context() as monkeypatch, sync_playwright() as playwright:
        monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of its own profile: nobody is signed in."""
    context = browser.new_context(reduced_motion="reduce")
    yield context.new_page()
    context.close()
