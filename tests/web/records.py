"""One row of each table of the runtime, all of one session, and where the admin shows them."""

from typing import Any

from django.db import models

from cayu_runtime.models import (
    Approval,
    Attachment,
    Attempt,
    AuditEntry,
    Decision,
    DispatchPause,
    EffectRecord,
    Event,
    IdempotencyKey,
    Message,
    Proposal,
    Quarantine,
    Question,
    Session,
    Tenant,
    ToolCall,
    ToolRound,
)
from tests import rows

Rows = dict[type[models.Model], Any]


def one_of_each(tenant: Tenant) -> Rows:
    """Every table that has a tenant; the workers have none."""
    session = rows.session(tenant=tenant)
    call = rows.call("completed", session=session)
    effect = rows.effect("completed", call=call)
    approval = rows.approval("consumed", call=call)
    return {
        Tenant: tenant,
        Session: session,
        ToolRound: call.round,
        ToolCall: call,
        EffectRecord: effect,
        Attempt: rows.attempt("selected", effect=effect),
        Approval: approval,
        Decision: approval.decided_by,
        Proposal: rows.proposal("used", session=session, used_by=call, recorded_by=call),
        Question: rows.question("answered", session=session, call=rows.call("completed", session=session)),
        Attachment: rows.attachment(call=call, effect=effect),
        Message: rows.message(session=session),
        Event: rows.event(session=session),
        AuditEntry: rows.audit_entry(tenant=tenant),
        DispatchPause: rows.pause(tenant=tenant),
        Quarantine: rows.quarantine(tenant=tenant),
        IdempotencyKey: rows.idempotency_key(tenant=tenant, session=session),
    }


def list_of(model: type[models.Model]) -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/"


def page_of(row: models.Model) -> str:
    return f"{list_of(type(row))}{row.pk}/change/"
