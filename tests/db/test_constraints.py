"""A row cannot lie: every CHECK and unique constraint of every table refuses what it is there to refuse.

The lies are written past every service and transition, as an INSERT and as an UPDATE, and the error must name the very
constraint that the lie is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction

from cayu_runtime.core.transitions import MACHINES
from cayu_runtime.models import Approval, EffectRecord
from tests import rows
from tests.db.grant_lies import LIES
from tests.db.lies import Lie

pytestmark = pytest.mark.django_db

MODELS = list(apps.get_app_config("cayu_runtime").get_models())
APPEND_ONLY = [
    table
    for name in ("0002_append_only", "0006_attachment")
    for table in import_module(f"cayu_runtime.migrations.{name}").TABLES
]


def unique_columns(model: type[models.Model]) -> list[Any]:
    return [field for field in model._meta.concrete_fields if field.unique and not field.primary_key]


def column_name(model: type[models.Model], field: Any) -> str:
    return f"{model._meta.model_name}.{field.name}"


MODEL_OF = {constraint.name: model for model in MODELS for constraint in model._meta.constraints} | {
    column_name(model, field): model for model in MODELS for field in unique_columns(model)
}


def each(cases: list[Lie]) -> Any:
    return pytest.mark.parametrize("lie", [pytest.param(c, id=f"{c.constraint}: {c.why}") for c in cases])


@each(LIES)
def test_an_insert_of_a_lie_is_refused(lie: Lie) -> None:
    with transaction.atomic():
        lie.make()  # the truth is accepted
        transaction.set_rollback(True)

    def insert() -> None:
        row = lie.make(save=False)
        for name, value in lie.change.items():
            setattr(row, name, value)
        type(row)._default_manager.bulk_create([row])

    assert refused_by(insert) == lie.constraint


@each([lie for lie in LIES if MODEL_OF[lie.constraint]._meta.db_table not in APPEND_ONLY])
def test_an_update_into_a_lie_is_refused(lie: Lie) -> None:
    row = lie.make()
    table = type(row)._default_manager.filter(pk=row.pk)
    assert refused_by(lambda: table.update(**lie.change)) == lie.constraint
    unchanged = table.get()
    assert all(getattr(unchanged, name) == getattr(row, name) for name in lie.change)


def test_every_constraint_of_every_model_has_a_lie_that_it_refuses() -> None:
    assert {lie.constraint for lie in LIES} == set(MODEL_OF)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_database_has_every_constraint_that_the_model_declares(model: type[models.Model]) -> None:
    with connection.cursor() as cursor:
        held = connection.introspection.get_constraints(cursor, model._meta.db_table)
    assert {constraint.name for constraint in model._meta.constraints} - set(held) == set()


@pytest.mark.parametrize(
    "model, state",
    [pytest.param(m, s, id=f"{m.__name__} {s}") for m, machine in MACHINES.items() for s in machine.names],
)
def test_every_state_can_be_told_the_truth(model: type[models.Model], state: str) -> None:
    row: Any = rows.make(model, state)
    row.refresh_from_db()
    assert row.state == state


def test_what_is_unique_while_open_may_repeat_when_closed() -> None:
    """The partial unique constraints refuse a second open row, not the history."""
    call = rows.call("awaiting_approval")
    for version, state in enumerate(("denied", "expired", "cancelled", "void", "pending"), start=1):
        rows.approval(state, call=call, version=version)
    assert Approval.objects.filter(call=call).count() == 5

    session = rows.session()
    for state in ("settled", "settled", "executing"):
        rows.tool_round(state, session=session)

    effect = rows.effect("outcome_unknown")
    for state in ("superseded", "superseded", "selected", "admitted"):
        rows.attempt(state, effect=effect)
    for state in ("selected", "superseded"):  # evidence of one dispatch, told more than once
        rows.attempt(state, effect=effect, kind="late_outcome", dispatch_id=effect.dispatch_id)


def test_what_is_unique_in_a_tenant_may_repeat_in_another() -> None:
    for _ in range(2):
        tenant = rows.tenant()
        session = rows.session(tenant=tenant, session_id="refund-1042")
        rows.effect(call=rows.call("awaiting_approval", session=session), operation_id="refund-1042")
        rows.proposal(session=session, action_id="refund-1042")
        rows.audit_entry(tenant=tenant, seq=1)
    assert EffectRecord.objects.filter(operation_id="refund-1042").count() == 2


def refused_by(act: Callable[[], object]) -> str:
    """The constraint that refused, as the database itself names it."""
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        act()
    if connection.vendor == "postgresql":
        name = str(caught.value.__cause__.diag.constraint_name)  # type: ignore[union-attr]
        return name if name in MODEL_OF else _unique_column(name)
    said = str(caught.value)
    if check := re.fullmatch(r"CHECK constraint failed: (\w+)", said):
        return check[1]
    unique = re.fullmatch(r"UNIQUE constraint failed: (.+)", said)
    assert unique, said
    return UNIQUE_OVER[unique[1]]


def _unique_column(name: str) -> str:
    """PostgreSQL makes up the name of a unique column's constraint; which column it is about, it knows."""
    for model in MODELS:
        with connection.cursor() as cursor:
            held = connection.introspection.get_constraints(cursor, model._meta.db_table)
        if name in held:
            return UNIQUE_OVER[columns_of(model, held[name]["columns"])]
    raise AssertionError(f"no table has the constraint {name}")


def columns_of(model: type[models.Model], columns: list[str]) -> str:
    return ", ".join(f"{model._meta.db_table}.{column}" for column in columns)


# SQLite names a unique constraint by its columns.
UNIQUE_OVER = {
    columns_of(model, [str(model._meta.get_field(n).column) for n in c.fields]): c.name  # type: ignore[union-attr]
    for model in MODELS
    for c in model._meta.constraints
    if isinstance(c, models.UniqueConstraint)
} | {columns_of(m, [field.column]): column_name(m, field) for m in MODELS for field in unique_columns(m)}
