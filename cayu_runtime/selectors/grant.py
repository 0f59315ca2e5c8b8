from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Now

from ..errors import NotFound
from ..models import Grant, Quarantine, Tenant

STATES = ("live", "revoked", "expired", "used_up", "quarantined")


def newest_grants(tenant: Tenant, before: tuple[datetime, UUID] | None = None, limit: int = 50) -> list[Grant]:
    """The grants of a tenant, past ones too, newest first; with `before`, those made before that row."""
    rows = Grant.objects.filter(tenant=tenant)
    if before is not None:
        moment, key = before
        rows = rows.filter(Q(made_at__lt=moment) | Q(made_at=moment, pk__lt=key))
    return list(rows.order_by("-made_at", "-id")[:limit])


def find_grant(tenant: Tenant, grant_id: UUID) -> Grant:
    row = Grant.objects.filter(tenant=tenant, pk=grant_id).first()
    if row is None:
        raise NotFound("There is no such grant.")
    return row


def find_in_any_tenant(grant_id: UUID) -> Grant | None:
    """For who operates the deployment."""
    return Grant.objects.select_related("tenant").filter(pk=grant_id).first()


def has_live_grant(tenant: Tenant, maker: str) -> bool:
    """Whether a grant that this subject made still lets calls pass, as far as time and uses say."""
    rows = Grant.objects.filter(tenant=tenant, made_by=maker, revoked_at=None, expires_at__gt=Now())
    return rows.filter(uses__lt=F("max_uses")).exists()


def last_quarantine(tenant: Tenant) -> datetime | None:
    """When a restored backup was last quarantined, for this tenant or for all. What was granted before is over."""
    rows = Quarantine.objects.filter(Q(tenant=tenant) | Q(tenant=None)).order_by("-started_at")
    return rows.values_list("started_at", flat=True).first()


def state_of(grant: Grant, now: datetime, quarantined: datetime | None) -> str:
    """One of STATES. `quarantined`: what `last_quarantine` says of its tenant."""
    own = grant.state_at(now)
    return "quarantined" if own == "live" and quarantined is not None and quarantined >= grant.made_at else own
