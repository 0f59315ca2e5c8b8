from __future__ import annotations

from django.db.models.functions import Now

from ..core.statements import find
from ..models import IdempotencyKey, Tenant


def find_key(tenant: Tenant, owner: str, key: str) -> IdempotencyKey | None:
    """What was done under this key, with its session; None if nothing was, or its time is over."""
    if find(IdempotencyKey, tenant=tenant, owner=owner, key=key) is None:
        return None  # as for nearly every request
    rows = IdempotencyKey.objects.select_related("session").filter(tenant=tenant, owner=owner, key=key)
    return rows.filter(expires_at__gt=Now()).first()
