"""The compiled statements read and write just what the ORM does, for every table of the runtime."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import models

from cayu_runtime.core.statements import fetch, find, insert, reader, split, update
from cayu_runtime.models import Approval, EffectRecord, ToolCall
from tests import rows

pytestmark = pytest.mark.django_db
STATES: list[tuple[type[models.Model], tuple[str, ...]]] = [
    *((model, (state,)) for model, states in rows.EVIDENCE.items() for state in states),
    *((model, ()) for model in rows.MAKERS if model not in rows.EVIDENCE),
]


def columns(row: models.Model) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def name_of(case: Any) -> str:
    return "-".join(case) if isinstance(case, tuple) else str(case.__name__)


@pytest.mark.parametrize("model, state", STATES, ids=name_of)
def test_a_row_is_inserted_and_found_as_by_the_orm(model: type[models.Model], state: tuple[str, ...]) -> None:
    row = rows.make(model, *state, save=False)
    insert([row])
    by_orm = model._default_manager.latest("pk")
    found = find(model, **{str(by_orm._meta.pk.name): by_orm.pk})
    assert found is not None
    assert columns(found) == columns(by_orm)
    assert {n: v for n, v in columns(row).items() if v is not None}.items() <= columns(by_orm).items()
    assert (type(found), found._state.adding, found._state.db) == (model, False, "default")


def test_an_update_changes_the_rows_that_are_as_the_guard_says() -> None:
    call = rows.call("prepared")
    other = columns(rows.call("prepared"))
    result = {"status": "failed", "text": "\0 \ud800 ü"}
    values = {"state": "failed", "result": result, "finished_at": rows.NOW}
    assert update(ToolCall, values, {"id": call.pk, "state": "dispatched"}) == 0
    assert update(ToolCall, values, {"id": call.pk, "state": "prepared"}) == 1
    call.refresh_from_db()
    assert (call.state, call.result, call.finished_at) == ("failed", result, rows.NOW)
    assert columns(ToolCall.objects.get(pk=other["id"])) == other


def test_a_row_that_an_outer_join_does_not_find_is_none() -> None:
    call = rows.call("prepared", effect_class="none")
    readers = reader(ToolCall, "c"), reader(EffectRecord, "e"), reader(Approval, "a")
    selected = ", ".join(read.columns for read in readers)
    call_table, effect_table, approval_table = (read.table for read in readers)
    joined = f"LEFT JOIN {effect_table} ON e.call_id = c.id LEFT JOIN {approval_table} ON a.call_id = c.id"
    (found,) = fetch(f"SELECT {selected} FROM {call_table} {joined}", [])
    read_call, effect, approval = split(readers, found)
    assert (read_call.pk, effect, approval) == (call.pk, None, None)
