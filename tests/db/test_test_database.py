"""What the other tests rely on: a flush that append-only triggers do not stop, and a database children can open."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

POSTGRES_TRIGGERS = """
CREATE FUNCTION cayu_append_only_sample() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'append-only' USING ERRCODE = '55000'; END $$;
CREATE TRIGGER cayu_append_only_sample_rows BEFORE UPDATE OR DELETE ON auth_group
    FOR EACH ROW EXECUTE FUNCTION cayu_append_only_sample();
CREATE TRIGGER cayu_append_only_sample_truncate BEFORE TRUNCATE ON auth_group
    FOR EACH STATEMENT EXECUTE FUNCTION cayu_append_only_sample();
"""
POSTGRES_CLEAN = "DROP FUNCTION cayu_append_only_sample() CASCADE"
SQLITE_TRIGGER = """
CREATE TRIGGER cayu_append_only_sample BEFORE DELETE ON auth_group BEGIN SELECT RAISE(ABORT, 'append-only'); END
"""
SQLITE_CLEAN = "DROP TRIGGER cayu_append_only_sample"


@pytest.fixture
def append_only_groups(transactional_db: None) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(POSTGRES_TRIGGERS if connection.vendor == "postgresql" else SQLITE_TRIGGER)
    yield
    with connection.cursor() as cursor:
        cursor.execute(POSTGRES_CLEAN if connection.vendor == "postgresql" else SQLITE_CLEAN)


@pytest.mark.usefixtures("append_only_groups")
def test_a_flush_empties_append_only_tables_and_leaves_their_triggers_standing() -> None:
    Group.objects.create(name="alice's")
    call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)
    assert not Group.objects.exists()

    Group.objects.create(name="bob's")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Group.objects.all().delete()
    assert Group.objects.count() == 1


def test_a_child_process_sees_what_the_test_committed(child_environment: dict[str, str]) -> None:
    Group.objects.create(name="seen from outside")
    code = "from django.contrib.auth.models import Group; print(Group.objects.get().name)"
    child = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", code],
        env=child_environment, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip().splitlines()[-1] == "seen from outside"


@pytest.mark.sqlite
def test_the_sqlite_test_database_is_a_file_in_wal_mode(db: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone()[0] == "wal"
    assert str(connection.settings_dict["NAME"]).endswith("test.sqlite3")
