"""Whether the database still has the constraints that the models declare, and the triggers that refuse a change."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from django.apps import apps
from django.db import connection

from . import Damage

APPS = ("cayu_runtime", "cayu_review")
MADE_IN = ("0002_append_only", "0006_attachment")


def schema_damage() -> Iterator[Damage]:
    for app in APPS:
        if apps.is_installed(app):
            yield from _constraints(app)
    for problem in trigger_problems():
        yield Damage("trigger", problem.partition(":")[0], problem)


def _constraints(app: str) -> Iterator[Damage]:
    for model in apps.get_app_config(app).get_models():
        table = model._meta.db_table
        with connection.cursor() as cursor:
            held = connection.introspection.get_constraints(cursor, table)
        for constraint in model._meta.constraints:
            if constraint.name not in held:
                what = f"The constraint {constraint.name} is not on the table {table}."
                yield Damage("constraint", f"{table}.{constraint.name}", what)
    if connection.vendor == "postgresql" and app == APPS[0]:
        yield from _not_validated()


def _not_validated() -> Iterator[Damage]:
    """A constraint that was put back without looking at the rows that were there."""
    names = "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE NOT convalidated AND conname IS NOT NULL"
    with connection.cursor() as cursor:
        cursor.execute(names)
        for table, name in cursor.fetchall():
            what = f"The constraint {name} of {table} was never held against the rows that stood there before."
            yield Damage("constraint", f"{table}.{name}", what)


def trigger_problems() -> Iterator[str]:
    """Each append-only table whose triggers are missing, switched off or not as they were made: "table: what"."""
    tables = [table for name in MADE_IN for table in import_module(f"cayu_runtime.migrations.{name}").TABLES]
    yield from (_on_postgresql if connection.vendor == "postgresql" else _on_sqlite)(tables)


def _on_postgresql(tables: list[str]) -> Iterator[str]:
    sql = (
        "SELECT c.relname, t.tgname, t.tgenabled, p.prosrc, t.tgtype FROM pg_trigger t "
        "JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid "
        "WHERE NOT t.tgisinternal AND pg_table_is_visible(c.oid) AND c.relname = ANY(%s)"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [tables])
        held = {(table, name): (enabled, source, kind) for table, name, enabled, source, kind in cursor.fetchall()}
    before_row, before_update_delete, before_truncate = 1 | 2, 16 | 8, 2 | 32
    wanted = {"cayu_append_only_row": before_row | before_update_delete, "cayu_append_only_all": before_truncate}
    for table in tables:
        for name, kind in wanted.items():
            enabled, source, actual = held.get((table, name), ("", "", 0))
            if not enabled:
                yield f"{table}: the trigger {name} is missing"
            elif enabled not in ("O", "A"):
                yield f"{table}: the trigger {name} is switched off"
            elif "RAISE EXCEPTION 'rows of % are append-only'" not in source or actual != kind:
                yield f"{table}: the trigger {name} is not what was made"


def _on_sqlite(tables: list[str]) -> Iterator[str]:
    statements = import_module("cayu_runtime.migrations.0002_append_only").statements
    with connection.cursor() as cursor:
        cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")
        held = {sql for (sql,) in cursor.fetchall()}
        cursor.execute("PRAGMA recursive_triggers")
        guards_replace = bool(cursor.fetchone()[0])
    for table in tables:
        for statement in statements("sqlite", table):
            if statement not in held:
                yield f"{table}: the trigger {statement.split()[2]} is missing, or not what was made"
    if not guards_replace:
        yield "this connection: PRAGMA recursive_triggers is off, so INSERT OR REPLACE would pass the triggers"
