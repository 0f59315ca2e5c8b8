from __future__ import annotations

import uuid
from datetime import datetime

from django.db.models import Q

from ..models import Attempt, EffectRecord, Tenant

PAGE = 50
COUNT_LIMIT = 100
UNCERTAIN = ("outcome_unknown", "manual_review")


def uncertain(tenant: Tenant, after: tuple[datetime, uuid.UUID] | None = None, limit: int = PAGE) -> list[EffectRecord]:
    """A page of effects whose outcome nobody knows, longest unknown first; `after` is the last row's (unknown_since,
    id).
    """
    rows = EffectRecord.objects.filter(tenant=tenant, state__in=UNCERTAIN).select_related("session", "call")
    if after is not None:
        rows = rows.filter(Q(unknown_since__gt=after[0]) | Q(unknown_since=after[0], id__gt=after[1]))
    return list(rows.order_by("unknown_since", "id")[:limit])


def count_uncertain(tenant: Tenant) -> int:
    """How many are uncertain, exact below COUNT_LIMIT, which means that many or more."""
    return len(EffectRecord.objects.filter(tenant=tenant, state__in=UNCERTAIN).values_list("id")[:COUNT_LIMIT])


def find_effect(tenant: Tenant, effect_id: uuid.UUID) -> EffectRecord | None:
    return EffectRecord.objects.select_related("session", "call").filter(tenant=tenant, pk=effect_id).first()


def attempts_of(effect: EffectRecord) -> list[Attempt]:
    return list(Attempt.objects.filter(effect=effect).order_by("admitted_at", "id"))
