"""What has been recorded stays: the database refuses to change or remove rows of the append-only tables."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest
from django.db import DatabaseError, connection, models, transaction

from cayu_runtime.models import Attachment, AuditEntry, Decision, Event, Message
from tests import rows

pytestmark = pytest.mark.django_db

# What DESIGN §2 calls append-only, and a forgery that nothing but the trigger would refuse.
FORGERIES: dict[type[models.Model], tuple[str, str]] = {
    Event: ("type", "tool.call.approved"),
    AuditEntry: ("actor", "user:bob"),
    Message: ("role", "model"),
    Decision: ("reason", "I never said so."),
    Attachment: ("name", "another.txt"),
}
MIGRATIONS = ("0002_append_only", "0006_attachment")
TABLES = [table for name in MIGRATIONS for table in import_module(f"cayu_runtime.migrations.{name}").TABLES]

REFUSAL = rf"rows of ({'|'.join(TABLES)}) are append-only"

each = pytest.mark.parametrize(
    "model, column, forged", [pytest.param(model, *how, id=model.__name__) for model, how in FORGERIES.items()]
)


def test_the_migrations_guard_every_append_only_table_and_no_other() -> None:
    assert {model._meta.db_table for model in FORGERIES} == set(TABLES)
    promising = {
        table.__name__
        for table in rows.MAKERS
        if "append-only" in (table.__doc__ or "").lower() or table is AuditEntry  # "the same as Event for …"
    }
    assert promising == {model.__name__ for model in FORGERIES}


@each
def test_a_queryset_cannot_update_it(model: type[models.Model], column: str, forged: str) -> None:
    row = rows.make(model)
    stays(row, lambda: model._default_manager.filter(pk=row.pk).update(**{column: forged}))


@each
def test_an_update_that_changes_nothing_is_refused_too(model: type[models.Model], column: str, forged: str) -> None:
    row = rows.make(model)
    stays(row, lambda: model._default_manager.update(**{column: getattr(row, column)}))


@each
def test_a_row_cannot_save_itself_again(model: type[models.Model], column: str, forged: str) -> None:
    row = rows.make(model)
    setattr(row, column, forged)
    stays(row, row.save)


@each
def test_bulk_update_cannot_change_it(model: type[models.Model], column: str, forged: str) -> None:
    row = rows.make(model)
    setattr(row, column, forged)
    stays(row, lambda: model._default_manager.bulk_update([row], [column]))


@each
def test_an_upsert_cannot_change_it(model: type[models.Model], column: str, forged: str) -> None:
    row = rows.make(model)
    setattr(row, column, forged)
    upsert = {"update_conflicts": True, "unique_fields": ["id"], "update_fields": [column]}
    stays(row, lambda: model._default_manager.bulk_create([row], **upsert))  # type: ignore[arg-type]


@each
def test_a_queryset_cannot_delete_it(model: type[models.Model], column: str, forged: str) -> None:
    row = rows.make(model)
    stays(row, lambda: model._default_manager.filter(pk=row.pk).delete())


@each
def test_a_row_cannot_delete_itself(model: type[models.Model], column: str, forged: str) -> None:
    row = rows.make(model)
    copy = model._default_manager.get(pk=row.pk)
    stays(row, copy.delete)


@each
def test_raw_sql_cannot_update_it(model: type[models.Model], column: str, forged: str) -> None:
    row = rows.make(model)
    stays(row, lambda: execute(f"UPDATE {model._meta.db_table} SET {column} = '{forged}'"))


@each
def test_raw_sql_cannot_delete_it(model: type[models.Model], column: str, forged: str) -> None:
    row = rows.make(model)
    stays(row, lambda: execute(f"DELETE FROM {model._meta.db_table}"))


@each
@pytest.mark.postgres
def test_it_cannot_be_truncated(model: type[models.Model], column: str, forged: str) -> None:
    row = rows.make(model)
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    stays(row, lambda: execute(f"TRUNCATE {model._meta.db_table} CASCADE"))


@pytest.mark.postgres
def test_it_cannot_be_truncated_by_way_of_the_sessions() -> None:
    row = rows.event()
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    stays(row, lambda: execute("TRUNCATE cayu_runtime_session CASCADE"))


@each
@pytest.mark.sqlite
@pytest.mark.parametrize("identity", ["the same id", "a new id"])
def test_insert_or_replace_cannot_change_it(model: type[models.Model], column: str, forged: str, identity: str) -> None:
    """SQLite removes the row that a REPLACE meets without asking its triggers, unless told to."""
    row = rows.make(model)
    table = model._meta.db_table
    columns = [str(field.column) for field in model._meta.concrete_fields]
    values = [f"'{forged}'" if name == column else name for name in columns]
    if identity == "a new id":
        values[columns.index("id")] = "lower(hex(randomblob(16)))" if model in (Decision, Attachment) else "NULL"
    replace = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {table}"
    stays(row, lambda: execute(replace))


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def stays(row: models.Model, act: Callable[[], object]) -> None:
    """`act` is refused by the trigger, and the row is as it was."""
    columns = [field.attname for field in row._meta.concrete_fields]
    table = type(row)._default_manager.filter(pk=row.pk)
    before = table.values_list(*columns).get()
    with pytest.raises(DatabaseError, match=REFUSAL) as caught, transaction.atomic():
        act()
    if connection.vendor == "postgresql":
        assert caught.value.__cause__.sqlstate == "55000"  # type: ignore[union-attr]
    assert table.values_list(*columns).get() == before
