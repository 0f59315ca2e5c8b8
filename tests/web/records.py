"""One row of each table of the runtime, all of one session, and where the admin shows them."""

from typing import Any

from django.db import models

from cayu_runtime.models import AuditEntry, Decision, Tenant
from cayu_runtime.services.audit import record
from tests import rows

Rows = dict[type[models.Model], Any]


def one_of_each(tenant: Tenant) -> Rows:
    """Every table that has a tenant; the workers have none."""
    session = rows.session(tenant=tenant)
    call = rows.call("completed", session=session)
    effect = rows.effect("completed", call=call)
    approval = rows.approval("consumed", call=call)
    asked = rows.call("completed", session=session)
    record(tenant.pk, "records.exported", None)
    made: tuple[models.Model, ...] = (
        tenant,
        session,
        call.round,
        call,
        effect,
        rows.attempt("selected", effect=effect),
        approval,
        Decision.objects.get(approval=approval),
        rows.proposal("used", session=session, used_by=call, recorded_by=call),
        rows.question("answered", session=session, call=asked),
        rows.attachment(call=call, effect=effect),
        rows.message(session=session),
        rows.event(session=session),
        AuditEntry.objects.filter(tenant=tenant).latest("seq"),
        rows.pause(tenant=tenant),
        rows.quarantine(tenant=tenant),
        rows.grant(tenant=tenant),
        rows.idempotency_key(tenant=tenant, session=session),
    )
    return {type(row): row for row in made}


def list_of(model: type[models.Model]) -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/"


def page_of(row: models.Model) -> str:
    return f"{list_of(type(row))}{row.pk}/change/"
