"""The database itself is asked whether a commit lasts."""

from typing import Any

import pytest
from django.db import connection

from cayu_project.checks import check_durability

pytestmark = pytest.mark.django_db


def found() -> list[str]:
    messages = list(check_durability(databases=["default"]))
    assert all(message.hint for message in messages)
    assert {message.id for message in messages} <= {"cayu.E010"}
    return [message.msg for message in messages]


@pytest.mark.postgres
def test_synchronous_commit_off_is_refused_on_postgresql(settings: Any) -> None:
    settings.CAYU_TEST_DURABILITY_OFF = False
    before = found()
    assert not any("synchronous_commit" in message for message in before)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = off")
    assert any("synchronous_commit is off" in message for message in found())


@pytest.mark.postgres
def test_fsync_off_is_refused_but_in_tests(settings: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW fsync")
        fsync = cursor.fetchone()[0]
    if fsync == "on":
        pytest.skip("this server writes to disk: nothing to refuse")
    settings.CAYU_TEST_DURABILITY_OFF = True
    assert found() == []
    settings.CAYU_TEST_DURABILITY_OFF = False
    assert any("fsync is off" in message for message in found())


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_synchronous_below_full_is_refused_on_sqlite(settings: Any) -> None:
    settings.CAYU_TEST_DURABILITY_OFF = False
    with connection.cursor() as cursor:
        for value, refused in (("OFF", True), ("NORMAL", True), ("FULL", False), ("EXTRA", False)):
            cursor.execute(f"PRAGMA synchronous={value}")
            assert any("synchronous is below FULL" in message for message in found()) is refused
    connection.close()


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_another_journal_than_wal_is_refused_on_sqlite(settings: Any) -> None:
    settings.CAYU_TEST_DURABILITY_OFF = False
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode=DELETE")
        assert any("journal_mode is not WAL" in message for message in found())
        cursor.execute("PRAGMA journal_mode=WAL")
        assert not any("journal_mode" in message for message in found())
    connection.close()
