from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from cayu_runtime import authority
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import ApprovalExpired, Claimed, Conflict, NotFound
from cayu_runtime.models import Approval, Tenant

from ..models import Claim
from ..selectors.claim import decided_since

MINUTES = 10


def claim_approval(tenant: Tenant, actor: Actor, approval_id: UUID) -> Claim:
    """Say that this person is looking at a waiting approval: for MINUTES by the database's clock, never longer than it
    waits. Sent again, the time begins anew. It grants nothing, and moves no deadline.

    Whoever may decide it, and has not agreed already, may claim it. Of two at one moment one has it. NotFound;
    NotPermitted by the authority; Claimed, which names who has it; ApprovalExpired, or Conflict when it waits no more.
    """
    found = Approval.objects.filter(tenant=tenant, pk=approval_id).annotate(at=Now()).first()
    if found is None:
        raise NotFound("There is no such approval.")
    authority.require(actor, "claim", found)
    if found.state != "pending":
        raise Conflict(f"This request is {found.state}; there is nothing to look at any more.")
    if found.expires_at <= found.at:
        raise ApprovalExpired("The time to decide is over. Nothing ran; the agent may ask again.")
    if found.decisions.filter(verdict="approve", actor=actor.subject, version=found.version).exists():
        raise Conflict("You have agreed to this already. It waits for others.")
    values: dict[str, Any] = {
        "holder": actor.subject,
        "holder_name": actor.name[:200],
        "since": found.at,
        "until": min(found.at + timedelta(minutes=MINUTES), found.expires_at),
    }
    for _ in range(2):  # the second time for a claim that was given back, or was our own, at this very moment
        if _take_over(found, values) or _take_first(found, values):
            return Claim(approval=found, tenant=tenant, **values)
    held = Claim.objects.filter(approval=found).first()
    if held is None:
        raise Conflict("Somebody had claimed it and gave it back at this moment. Try again.")
    raise Claimed(
        f"{held.holder_name} is looking at this until {held.until:%H:%M} UTC. You can decide it all the same.",
        claim={"by": held.holder_name, "until": held.until.isoformat()},
    )


def release_claim(tenant: Tenant, actor: Actor, approval_id: UUID) -> bool:
    """Give back what this person claimed. False when they hold nothing there: nothing is changed then.

    NotFound; NotPermitted by the authority.
    """
    found = Approval.objects.filter(tenant=tenant, pk=approval_id).first()
    if found is None:
        raise NotFound("There is no such approval.")
    authority.require(actor, "claim", found)
    gone, _ = Claim.objects.filter(approval=found, holder=actor.subject).delete()
    return gone > 0


def _take_over(found: Approval, values: dict[str, Any]) -> bool:
    """A claim that ran out, ended by its holder's decision, or is this person's own."""
    free = Q(until__lte=values["since"]) | Q(holder=values["holder"]) | Q(decided_since())
    return Claim.objects.filter(free, approval=found).update(**values) == 1


def _take_first(found: Approval, values: dict[str, Any]) -> bool:
    try:
        with transaction.atomic():
            Claim.objects.create(approval=found, tenant_id=found.tenant_id, **values)
    except IntegrityError:
        return False
    return True
