"""What every table keeps, also one that is added later: a tenant, known states, an end that says when, exact types."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction
from django.db.models import BinaryField, JSONField

from cayu_runtime.core import states
from cayu_runtime.core.transitions import CLOSED_AT, MACHINES
from cayu_runtime.models import DispatchPause, Quarantine, Tenant, Worker
from cayu_runtime.models.fields import BytesField, JSONTextField
from tests import rows

MODELS = list(apps.get_app_config("cayu_runtime").get_models())
EVERYWHERE = (DispatchPause, Quarantine, Worker)  # of the whole deployment, the first two if they have no tenant
OWNED = [model for model in MODELS if model is not Tenant and model not in EVERYWHERE]

each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
each_owned = pytest.mark.parametrize("model", OWNED, ids=lambda model: model.__name__)
each_machine = pytest.mark.parametrize("model", MACHINES, ids=lambda model: model.__name__)


def test_every_table_can_be_made_in_tests() -> None:
    assert set(rows.MAKERS) == set(MODELS)


@each_owned
@pytest.mark.django_db
def test_no_row_without_a_tenant(model: type[models.Model]) -> None:
    row = rows.make(model, save=False)
    row.tenant = None  # type: ignore[attr-defined]
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        model._default_manager.bulk_create([row])
    assert missing_column(caught.value) == "tenant_id"


@each_owned
@pytest.mark.django_db
def test_no_row_loses_its_tenant(model: type[models.Model]) -> None:
    """An append-only row is refused by its trigger, before the column is looked at."""
    rows.make(model)
    with pytest.raises(Exception, match=r"tenant_id|append-only"), transaction.atomic():
        model._default_manager.update(tenant=None)


@each_owned
@pytest.mark.django_db
def test_a_tenant_with_rows_cannot_be_deleted(model: type[models.Model]) -> None:
    row = rows.make(model)
    with pytest.raises(models.ProtectedError):
        Tenant.objects.filter(pk=row.tenant_id).delete()  # type: ignore[attr-defined]


def test_every_table_with_states_has_its_machine() -> None:
    with_states = {model for model in MODELS if any(field.name == "state" for field in model._meta.fields)}
    assert with_states == set(MACHINES)
    assert tuple(MACHINES.values()) == states.MACHINES


@each_machine
@pytest.mark.django_db
def test_every_state_of_the_machine_and_no_other_is_known_to_the_database(model: type[models.Model]) -> None:
    known = next(c for c in model._meta.constraints if c.name.endswith("_state_known"))
    assert isinstance(known, models.CheckConstraint)
    assert known.condition == models.Q(state__in=MACHINES[model].names)
    for state in MACHINES[model].names:
        rows.make(model, state)


@each_machine
def test_evidence_of_every_state_is_known_to_the_tests(model: type[models.Model]) -> None:
    assert set(rows.EVIDENCE[model]) == set(MACHINES[model].names)


@each_machine
def test_every_end_has_a_column_that_says_when(model: type[models.Model]) -> None:
    """A CHECK ties it to the final states; that it does, test_constraints.py proves."""
    machine = MACHINES[model]
    column = "finished_at" if machine is states.SESSION else CLOSED_AT.get(model, "closed_at")
    assert model._meta.get_field(column).null
    assert any(c.name.endswith(f"_{column}_matches") for c in model._meta.constraints)


@each_model
def test_digests_and_json_have_the_types_that_read_the_same_on_both_databases(model: type[models.Model]) -> None:
    """A bare BinaryField reads as memoryview on PostgreSQL; JSONB refuses NUL and reorders keys."""
    for field in model._meta.concrete_fields:
        assert not isinstance(field, JSONField), f"{field.name} should be a JSONTextField"
        assert not isinstance(field, BinaryField) or isinstance(field, BytesField), f"{field.name}: BytesField"


@each_model
@pytest.mark.django_db
def test_a_row_reads_as_it_was_written(model: type[models.Model]) -> None:
    row = rows.make(model)
    written = {field.attname: getattr(row, field.attname) for field in model._meta.concrete_fields}
    read: Any = model._default_manager.get(pk=row.pk)
    assert {name: getattr(read, name) for name in written} == written
    for field in model._meta.concrete_fields:
        if isinstance(field, (BytesField, JSONTextField)) and written[field.attname] is not None:
            assert type(getattr(read, field.attname)) is type(written[field.attname])


def missing_column(error: IntegrityError) -> str:
    if connection.vendor == "postgresql":
        diag = error.__cause__.diag  # type: ignore[union-attr]
        assert diag.sqlstate == "23502"
        return str(diag.column_name)
    said, _, column = str(error).rpartition(".")
    assert said.startswith("NOT NULL constraint failed"), error
    return column
