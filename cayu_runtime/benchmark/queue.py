"""The approval queue with very many waiting: its selector, and the whole page as a signed-in approver gets it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection, models
from django.test import Client

from ..models import Approval, EffectRecord, Session, ToolRound
from ..selectors.approval import PAGE, waiting
from .lifecycle import Engine, People, people, start, wake
from .recorder import recording

TIMES = 31


def queue(engine: Engine, sizes: Sequence[int]) -> Callable[[], dict[str, Any]]:
    """Milliseconds of the first page of 50 by selector and by HTTP, and the page's queries, for each number waiting."""
    who = people(engine)
    session = start(who)
    wake(who, session)

    def run() -> dict[str, Any]:
        return {str(size): _measured(who, session, size) for size in sizes}

    return run


def _measured(who: People, session: Session, size: int) -> dict[str, float]:
    _fill(session, size)
    client = Client(SERVER_NAME="localhost")
    client.force_login(get_user_model().objects.get(username=who.approver.name))
    rows = waiting(who.tenant)
    assert len(rows) == min(PAGE, size), f"{len(rows)} rows are on the first page."
    with recording() as record:
        assert client.get("/").status_code == 200
    return {
        "selector_ms": _ms(lambda: waiting(who.tenant)),
        "page_ms": _ms(lambda: client.get("/")),
        "page_queries": record.statements,
    }


def _ms(work: Callable[[], Any]) -> float:
    lasted = []
    for _ in range(TIMES):
        began = time.perf_counter()
        work()
        lasted.append((time.perf_counter() - began) * 1000)
    return median(lasted)


def _fill(session: Session, size: int) -> None:
    """As many waiting sessions as `size` says: copies, in SQL, of one that really waits, each with rows of its own."""
    there = Approval.objects.filter(tenant=session.tenant_id, state="pending").count()
    approval = Approval.objects.select_related("call__proposal").get(session=session)
    assert approval.call.proposal is not None  # the reference lifecycle's action is a reviewed one
    effect = EffectRecord.objects.get(call=approval.call_id)
    own = {"id": _own_id(), "session": _own_id()}
    operation = {"operation_id": "'waiting-' || n"}
    rows: list[tuple[models.Model, dict[str, str]]] = [
        (session, {"id": _own_id(), "session_id": "'waiting-' || n"}),
        (ToolRound.objects.get(pk=approval.call.round_id), own),
        (approval.call.proposal, {**own, "action_id": "'waiting-' || n"}),
        (approval.call, {**own, **operation, "round": _own_id(), "proposal": _own_id()}),
        (effect, {**own, **operation, "call": _own_id()}),
        (approval, {**own, "call": _own_id(), "expires_at": _later()}),
    ]
    with connection.cursor() as cursor:
        for row, changed in rows:
            cursor.execute(_copies(row, changed), [there, size - 1, row.pk.hex])
        cursor.execute("ANALYZE")


def _copies(row: models.Model, changed: dict[str, str]) -> str:
    """INSERT of one copy of a row for each n from the first to the second parameter."""
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


def _own_id() -> str:
    """The n-th id; rows that belong together have the same."""
    if connection.vendor == "postgresql":
        return "lpad(to_hex(n), 32, '0')::uuid"
    return "printf('%%032x', n)"


def _later() -> str:
    if connection.vendor == "postgresql":
        return "expires_at + n * interval '1 second'"
    return "datetime(expires_at, '+' || n || ' seconds')"
