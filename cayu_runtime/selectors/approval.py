from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Cast

from ..contracts import ToolEffect
from ..models import Approval, Decision, Session, Tenant, ToolCall
from .effect import uncertain_equals

PAGE = 50
COUNT_LIMIT = 100


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One waiting approval as the queue shows it, read from the approval's row alone."""

    id: uuid.UUID
    verb: str
    target: str
    agent: str
    task: str
    tool: str
    effect_class: str
    requester: str
    requester_name: str
    four_eyes: bool
    needed: int
    tier: int
    created_at: datetime
    expires_at: datetime


COLUMNS = tuple(QueueRow.__dataclass_fields__)


def waiting(tenant: Tenant, after: tuple[datetime, uuid.UUID] | None = None, limit: int = PAGE) -> list[QueueRow]:
    """A page of what waits for a decision, soonest to expire first; `after` is the last row's (expires_at, id)."""
    rows = Approval.objects.filter(tenant=tenant, state="pending")
    if after is not None:
        rows = rows.filter(Q(expires_at__gt=after[0]) | Q(expires_at=after[0], id__gt=after[1]))
    return [QueueRow(*row) for row in rows.order_by("expires_at", "id").values_list(*COLUMNS)[:limit]]


@dataclass(frozen=True, slots=True)
class PendingRow:
    """One waiting approval for a client that decides by its version and digest. `arguments` is their text as stored."""

    id: uuid.UUID
    session_id: str
    call: uuid.UUID
    tool: str
    effect_class: str
    agent: str
    verb: str
    target: str
    requester_name: str
    version: int
    digest: bytes
    editable: bool
    agreement: Any
    stage: int
    needed: int
    tier: int
    escalate_at: datetime | None
    created_at: datetime
    expires_at: datetime
    arguments: str


def pending(
    tenant: Tenant,
    session: Session | None = None,
    after: tuple[datetime, uuid.UUID] | None = None,
    limit: int = PAGE,
) -> list[PendingRow]:
    """As `waiting`, of one session or of the tenant, with what a decision by API needs."""
    rows = Approval.objects.filter(tenant=tenant, state="pending")
    if session is not None:
        rows = rows.filter(session=session)
    if after is not None:
        rows = rows.filter(Q(expires_at__gt=after[0]) | Q(expires_at=after[0], id__gt=after[1]))
    columns = rows.order_by("expires_at", "id").values_list(
        "id", "session__session_id", F("call_id"), "tool", "effect_class", "agent", "verb", "target", "requester_name",
        "version", "intent_digest", "editable", "agreement", "stage", "needed", "tier", "escalate_at",
        "created_at", "expires_at",
        Cast("call__arguments", CharField()),
    )  # fmt: skip
    return [PendingRow(*row) for row in columns[:limit]]


def count_waiting(tenant: Tenant) -> int:
    """How many wait, exact below COUNT_LIMIT, which means that many or more."""
    return len(Approval.objects.filter(tenant=tenant, state="pending").values_list("id")[:COUNT_LIMIT])


def waiting_by_agent(tenant: Tenant, limit: int = 1000) -> Counter[str]:
    """How many wait of each agent, among the first `limit`."""
    rows = Approval.objects.filter(tenant=tenant, state="pending").order_by("expires_at", "id")
    return Counter(rows.values_list("agent", flat=True)[:limit])


def next_waiting(
    tenant: Tenant,
    subject: str,
    after: tuple[datetime, uuid.UUID],
    now: datetime,
    others: Collection[uuid.UUID] = (),
) -> uuid.UUID | None:
    """What this person can decide next: the first after `after` in the queue's order, else the first of all. What
    `others` look at comes last.
    """
    rows = Approval.objects.filter(tenant=tenant, state="pending", expires_at__gt=now)
    agreed = Decision.objects.filter(verdict="approve", actor=subject)
    mine = agreed.filter(approval=OuterRef("pk"), version=OuterRef("version"))
    rows = rows.exclude(four_eyes=True, requester=subject).exclude(four_eyes=True, edited_by=subject)
    ids = rows.exclude(Exists(mine)).order_by("expires_at", "id").values_list("id", flat=True)
    later = ids.filter(Q(expires_at__gt=after[0]) | Q(expires_at=after[0], id__gt=after[1]))
    free = later.exclude(pk__in=others).first() or ids.exclude(pk__in=others).first() if others else None
    return free or later.first() or ids.first()


def held_among(rows: Iterable[QueueRow]) -> set[uuid.UUID]:
    """Which of these wait for an equal action to be settled first, and can't be approved until then."""
    ids = [row.id for row in rows if row.effect_class == ToolEffect.EXTERNAL]
    if not ids:
        return set()
    equal = uncertain_equals(OuterRef("tenant"), OuterRef("call__action_digest")).filter(abandoned_at=None)
    return set(Approval.objects.filter(Exists(equal), pk__in=ids).values_list("id", flat=True))


def find_approval(tenant: Tenant, approval_id: uuid.UUID) -> Approval | None:
    return _whole(tenant).filter(pk=approval_id).first()


def waiting_of(call: ToolCall) -> Approval | None:
    """What waits for a decision about this call."""
    return Approval.objects.filter(tenant=call.tenant_id, call=call, state="pending").first()


def has_edited(approval: Approval, subject: str) -> bool:
    """Whether this person changed what is asked, last or before somebody else did."""
    if approval.edited_by == subject:
        return True
    return Decision.objects.filter(approval__call=approval.call_id, actor=subject, verdict="edit").exists()


def agreed_so_far(approval: Approval) -> list[Decision]:
    """Who agreed to what is asked now, in their order."""
    said = approval.decisions.filter(verdict="approve", version=approval.version)
    return list(said.order_by("decided_at", "id"))


def find_approvals(tenant: Tenant, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Approval]:
    """The tenant's approvals among these, in their order."""
    found = _whole(tenant).filter(pk__in=ids).in_bulk()
    return {one: found[one] for one in ids if one in found}


def _whole(tenant: Tenant) -> QuerySet[Approval]:
    rows = Approval.objects.select_related(
        "call", "call__effect", "call__proposal", "call__held_by", "session", "decided_by"
    )
    return rows.filter(tenant=tenant)


def revocation_of(approval: Approval) -> Decision | None:
    """Who took the approval back, if somebody did."""
    return approval.decisions.filter(verdict="revoke").first() if approval.state == "revoked" else None


def last_decision(tenant: Tenant) -> Decision | None:
    """The latest decision of the tenant, for an empty queue's truth."""
    decided = Approval.objects.filter(tenant=tenant, decided_at__isnull=False).select_related("decided_by")
    newest = decided.order_by("-decided_at").first()
    return newest.decided_by if newest else None
