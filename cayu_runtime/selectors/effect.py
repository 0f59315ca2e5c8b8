from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from ..core.states import CLOSED_EFFECT, LEASED
from ..models import Attempt, EffectRecord, Session, Tenant, ToolCall

PAGE = 50
COUNT_LIMIT = 100
UNCERTAIN = ("outcome_unknown", "manual_review")


def uncertain(
    tenant: Tenant,
    after: tuple[datetime, uuid.UUID] | None = None,
    limit: int = PAGE,
    session: Session | None = None,
) -> list[EffectRecord]:
    """A page of effects whose outcome nobody knows, of one session or of the tenant, longest unknown first; `after` is
    the last row's (unknown_since, id).
    """
    rows = EffectRecord.objects.filter(tenant=tenant, state__in=UNCERTAIN).select_related("session", "call")
    if session is not None:
        rows = rows.filter(session=session)
    if after is not None:
        rows = rows.filter(Q(unknown_since__gt=after[0]) | Q(unknown_since=after[0], id__gt=after[1]))
    return list(rows.order_by("unknown_since", "id")[:limit])


def count_uncertain(tenant: Tenant) -> int:
    """How many are uncertain, exact below COUNT_LIMIT, which means that many or more."""
    return len(EffectRecord.objects.filter(tenant=tenant, state__in=UNCERTAIN).values_list("id")[:COUNT_LIMIT])


def find_effect(tenant: Tenant, effect_id: uuid.UUID) -> EffectRecord | None:
    return EffectRecord.objects.select_related("session", "call").filter(tenant=tenant, pk=effect_id).first()


def find_in_any_tenant(effect_id: uuid.UUID) -> EffectRecord | None:
    """For who operates the deployment, at a shell. With its tenant, which every write then names."""
    return EffectRecord.objects.select_related("session", "call", "tenant").filter(pk=effect_id).first()


def effect_of_call(tenant: Tenant, call_id: uuid.UUID) -> EffectRecord | None:
    """The effect of one call; None for a call that has none."""
    return EffectRecord.objects.select_related("session", "call").filter(tenant=tenant, call=call_id).first()


def attempts_of(effect: EffectRecord) -> list[Attempt]:
    return list(Attempt.objects.filter(effect=effect).order_by("admitted_at", "id"))


def unfinished_lookups(tenant: Tenant, before: datetime, limit: int = PAGE) -> list[Attempt]:
    """Lookups and receipts that were admitted before this moment and never got an answer; oldest first."""
    rows = Attempt.objects.filter(tenant=tenant, state="admitted", admitted_at__lt=before).exclude(kind="dispatch")
    return list(rows.select_related("effect").order_by("admitted_at")[:limit])


def unverified(tenant: Tenant, limit: int = PAGE) -> list[EffectRecord]:
    """Effects whose receipt is held, on which no verifier has spoken, and whose session nobody holds."""
    rows = EffectRecord.objects.filter(~Q(state__in=CLOSED_EFFECT), tenant=tenant, state="receipted")
    return list(rows.exclude(session__state__in=LEASED).select_related("session").order_by("id")[:limit])


def unsettled_equals(call: ToolCall) -> list[EffectRecord]:
    """Effects of the same action of which nobody knows whether it happened, the given-up ones too; newest last."""
    rows = uncertain_equals(call.tenant_id, call.action_digest).exclude(call=call)
    return list(rows.select_related("session").order_by("created_at", "id"))


def uncertain_equals(tenant: Any, action_digest: Any) -> QuerySet[EffectRecord]:
    """The same as rows. That they are open says nothing new, but it is the condition of their index."""
    rows = EffectRecord.objects.filter(tenant=tenant, action_digest=action_digest, state__in=UNCERTAIN)
    return rows.filter(~Q(state__in=CLOSED_EFFECT))
