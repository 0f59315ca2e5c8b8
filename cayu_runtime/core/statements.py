"""Statements on the runtime's tables, compiled once per shape from the models.

Building a statement through the ORM takes several times as long as the database takes to run it
(docs/benchmark.md). The models stay the one description of the tables: names and conversions come from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

from ..models.fields import JSONTextField

Row = TypeVar("Row", bound=models.Model)

AS_IT_IS = frozenset({type(None), bool, int, str, bytes})
AS_IT_IS_FOR_POSTGRESQL = AS_IT_IS | {UUID, datetime}


class Reader(Generic[Row]):
    """Makes rows of one model from the columns of a statement in which its table is called `alias`."""

    def __init__(self, model: type[Row], alias: str) -> None:
        fields = model._meta.concrete_fields
        self._model = model
        self._names = [field.attname for field in fields]
        self._converters = []
        for place, field in enumerate(fields):
            column = field.get_col(alias)
            for convert in connection.ops.get_db_converters(column) + column.get_db_converters(connection):
                self._converters.append((place, convert, column))
        self.table = f"{model._meta.db_table} {alias}"
        self.columns = ", ".join(f"{alias}.{_quoted(field)}" for field in fields)
        self.width = len(fields)

    def row(self, values: Sequence[Any]) -> Row:
        made, database = list(values), connections[DEFAULT_DB_ALIAS]
        for place, convert, column in self._converters:
            made[place] = convert(made[place], column, database)
        return self._model.from_db(DEFAULT_DB_ALIAS, self._names, made)


@lru_cache(maxsize=64)
def reader(model: type[Row], alias: str) -> Reader[Row]:
    return Reader(model, alias)


def split(readers: Sequence[Reader[Any]], values: Sequence[Any]) -> list[Any]:
    """One row of each reader from a joined statement's columns; None where an outer join found nothing."""
    rows: list[Any] = []
    at = 0
    for read in readers:
        part = values[at : at + read.width]
        rows.append(None if part[0] is None else read.row(part))
        at += read.width
    return rows


def fetch(sql: str, parameters: Sequence[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def find(model: type[Row], **equal: Any) -> Row | None:
    """The one row with these values, or None."""
    fields = _fields(model)
    rows = fetch(_find_statement(model, tuple(equal)), _for_driver([(fields[n], v) for n, v in equal.items()]))
    return reader(model, "t").row(rows[0]) if rows else None


def update(model: type[models.Model], values: dict[str, Any], guard: dict[str, Any]) -> int:
    """Set `values` where the row is as `guard` says; how many rows that were."""
    names, guards, fields = tuple(sorted(values)), tuple(guard), _fields(model)
    pairs = [(fields[n], values[n]) for n in names] + [(fields[n], guard[n]) for n in guards]
    with connection.cursor() as cursor:
        cursor.execute(_update_statement(model, names, guards), _for_driver(pairs))
        count: int = cursor.rowcount
    return count


def insert(rows: Sequence[models.Model]) -> None:
    """Rows of one table with one statement."""
    if not rows:
        return
    head, marks, fields = _insert_shape(type(rows[0]))
    pairs = [(f, getattr(row, f.attname)) for row in rows for f in fields]
    with connection.cursor() as cursor:
        cursor.execute(head + ", ".join([marks] * len(rows)), _for_driver(pairs))


def prepared(model: type[models.Model], name: str, value: Any) -> Any:
    """A value as the driver wants it for this column."""
    return _for_driver([(_fields(model)[name], value)])[0]


@lru_cache(maxsize=64)
def _find_statement(model: type[models.Model], names: tuple[str, ...]) -> str:
    read = reader(model, "t")
    where = " AND ".join(f"t.{_quoted(_fields(model)[name])} = %s" for name in names)
    return f"SELECT {read.columns} FROM {read.table} WHERE {where}"  # noqa: S608  names come from the models


@lru_cache(maxsize=512)
def _update_statement(model: type[models.Model], names: tuple[str, ...], guard: tuple[str, ...]) -> str:
    fields = _fields(model)
    sets = ", ".join(f"{_quoted(fields[n])} = %s" for n in names)
    where = " AND ".join(f"{_quoted(fields[n])} = %s" for n in guard)
    return f"UPDATE {model._meta.db_table} SET {sets} WHERE {where}"  # noqa: S608  names come from the models


@lru_cache(maxsize=128)
def _insert_shape(model: type[models.Model]) -> tuple[str, str, tuple[models.Field[Any, Any], ...]]:
    fields = tuple(f for f in model._meta.concrete_fields if not isinstance(f, models.AutoField))
    columns = ", ".join(map(_quoted, fields))
    head = f"INSERT INTO {model._meta.db_table} ({columns}) VALUES "  # noqa: S608  names come from the models
    return head, "(" + ", ".join(["%s"] * len(fields)) + ")", fields


def _quoted(field: models.Field[Any, Any]) -> str:
    return connection.ops.quote_name(str(field.column))


@lru_cache(maxsize=64)
def _fields(model: type[models.Model]) -> dict[str, models.Field[Any, Any]]:
    return {f.name: f for f in model._meta.concrete_fields}


def _for_driver(pairs: Sequence[tuple[models.Field[Any, Any], Any]]) -> list[Any]:
    """Values as the driver wants them. It takes most as they are; asking the field costs more than the statement."""
    database = connections[DEFAULT_DB_ALIAS]
    as_it_is = AS_IT_IS_FOR_POSTGRESQL if database.vendor == "postgresql" else AS_IT_IS
    return [
        value if type(value) in as_it_is and not isinstance(field, JSONTextField) else _prepared(field, value, database)
        for field, value in pairs
    ]


def _prepared(field: models.Field[Any, Any], value: Any, database: BaseDatabaseWrapper) -> Any:
    if isinstance(value, models.Model):
        value = value.pk
    return field.get_db_prep_save(value, database)
