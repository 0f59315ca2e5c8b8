"""Who must agree to a call: stages of different people, one after the other; time never counts (DESIGN §8)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from ..contracts import Agreement
from ..contracts.agreement import MAX_TIER
from ..models import Approval
from .transitions import Change, transition


def asked_of(change: Change, agreement: Agreement | None) -> dict[str, Any]:
    """The columns of an approval that begins: its first stage."""
    if agreement is None:
        return {"agreement": None, "stage": 0, "needed": 1, "tier": 1, "escalate_at": None}
    return {"agreement": agreement.parameters, **_stage(change, agreement.parameters, 0)}


def asked_again(change: Change, before: Approval | None) -> dict[str, Any]:
    """As `asked_of`, for an approval that asks anew what `before` asked."""
    if before is None or before.agreement is None:
        return asked_of(change, None)
    return {"agreement": before.agreement, **_stage(change, before.agreement, 0)}


def _stage(change: Change, agreement: dict[str, Any], number: int) -> dict[str, Any]:
    people, tier = agreement["stages"][number]
    seconds = agreement["escalate_after"]
    escalates = change.now + timedelta(seconds=seconds) if seconds is not None and tier < MAX_TIER else None
    return {"stage": number, "needed": people, "tier": tier, "escalate_at": escalates}


def count(change: Change, approval: Approval) -> bool:
    """Count one more agreement. True: nobody else is needed."""
    if approval.needed > 1:
        change.update(approval, needed=approval.needed - 1)
        return False
    if approval.agreement is None or approval.stage + 1 == len(approval.agreement["stages"]):
        return True
    change.update(approval, **_stage(change, approval.agreement, approval.stage + 1))
    return False


def conditions_of(approval: Approval) -> list[str] | None:
    """What those who agreed attached, in their order; None if nothing."""
    if approval.agreement is None or not approval.agreement["conditions"]:
        return None
    agreed = approval.decisions.filter(verdict="approve", version=approval.version).order_by("decided_at", "id")
    return [said for said in agreed.values_list("condition", flat=True) if said] or None


def escalate(session: UUID, approval_id: UUID) -> bool:
    """Ask a tier more for a stage that was not complete in time. It grants nothing. False: not due."""
    with transition(session) as change:
        approval = Approval.objects.select_related("call").filter(session=change.session, pk=approval_id).first()
        if approval is None or approval.state != "pending":
            return False
        if approval.escalate_at is None or approval.escalate_at > change.now:
            return False
        change.update(approval, tier=min(approval.tier + 1, MAX_TIER), escalate_at=None)
        change.event(
            "tool.call.approval_escalated",
            call=approval.call,
            approval=str(approval.id),
            version=approval.version,
            tier=approval.tier,
            needed=approval.needed,
        )
    return True
