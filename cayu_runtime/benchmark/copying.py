"""Very many rows in little time: copies, in SQL, of rows that really came to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import connection, models

Changed = Mapping[str, str]
"""SQL for the fields in which a copy differs; `n` is its number."""


def copy(rows: Sequence[tuple[models.Model, Changed]], first: int, last: int) -> None:
    """A copy of each row for every number from first to last, in this order; the planner is told of them."""
    with connection.cursor() as cursor:
        for row, changed in rows:
            cursor.execute(_copies(row, changed), [first, last, row.pk.hex])
        cursor.execute("ANALYZE")


def _copies(row: models.Model, changed: Changed) -> str:
    fields = [field for field in row._meta.concrete_fields if not isinstance(field, models.AutoField)]
    table = row._meta.db_table
    columns = ", ".join(str(field.column) for field in fields)
    values = ", ".join(changed.get(field.name, str(field.column)) for field in fields)
    series = (
        "generate_series(%s::int, %s::int) AS series(n)"
        if connection.vendor == "postgresql"
        else "(WITH RECURSIVE r(n) AS (SELECT %s UNION ALL SELECT n + 1 FROM r WHERE n < %s) SELECT n FROM r) AS series"
    )
    row_is = "id = %s::uuid" if connection.vendor == "postgresql" else "id = %s"
    return f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table}, {series} WHERE {row_is}"  # noqa: S608


def own_id() -> str:
    """The n-th id; rows that belong together have the same."""
    if connection.vendor == "postgresql":
        return "lpad(to_hex(n), 32, '0')::uuid"
    return "printf('%%032x', n)"


def moved(column: str, seconds: str) -> str:
    """A moment so many seconds later; `seconds` is SQL too."""
    if connection.vendor == "postgresql":
        return f"{column} + ({seconds}) * interval '1 second'"
    return f"datetime({column}, '+' || ({seconds}) || ' seconds')"
