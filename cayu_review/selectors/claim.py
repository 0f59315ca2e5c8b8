from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from cayu_runtime.models import Approval, Decision, Tenant

from ..models import Claim

SHOWN = 100


def decided_since() -> Exists:
    """The condition on claims that their holder has decided what they looked at."""
    mine = Decision.objects.filter(approval=OuterRef("approval"), actor=OuterRef("holder"))
    return Exists(mine.filter(decided_at__gte=OuterRef("since")))


def claims_on(tenant: Tenant, approvals: Iterable[UUID]) -> dict[UUID, Claim]:
    """Who is looking at which of these at this moment, by the database's clock."""
    return {claim.approval_id: claim for claim in _standing(tenant).filter(approval__in=list(approvals))}


def claim_on(approval: Approval) -> Claim | None:
    """Who is looking at a waiting approval at this moment."""
    return _standing(approval.tenant).filter(approval=approval).first() if approval.state == "pending" else None


def looked_at_by_others(tenant: Tenant, subject: str) -> list[UUID]:
    """What colleagues of this person are looking at, the last to end first; at most SHOWN."""
    others = _standing(tenant).exclude(holder=subject).filter(approval__state="pending")
    return list(others.order_by("-until").values_list("approval", flat=True)[:SHOWN])


def _standing(tenant: Tenant) -> QuerySet[Claim]:
    return Claim.objects.filter(~decided_since(), tenant=tenant, until__gt=Now())
