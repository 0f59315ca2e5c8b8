from __future__ import annotations

import uuid
from datetime import datetime

from django.db.models import Prefetch, Q

from ..models import Approval, Event, Message, Session, Tenant, ToolCall

PAGE = 50
COUNT_LIMIT = 100


def find_session(tenant: Tenant, session_id: str) -> Session | None:
    return Session.objects.filter(tenant=tenant, session_id=session_id).first()


def newest_sessions(
    tenant: Tenant, before: tuple[datetime, uuid.UUID] | None = None, limit: int = PAGE
) -> list[Session]:
    """A page of sessions, newest first; `before` is the last row's (created_at, id)."""
    rows = Session.objects.filter(tenant=tenant)
    if before is not None:
        rows = rows.filter(Q(created_at__lt=before[0]) | Q(created_at=before[0], id__lt=before[1]))
    return list(rows.order_by("-created_at", "-id")[:limit])


def events_of(session: Session, after: int = 0, limit: int = 500) -> list[Event]:
    return list(Event.objects.filter(session=session, seq__gt=after).order_by("seq")[:limit])


def messages_of(session: Session, before: int | None = None, limit: int = 500) -> list[Message]:
    """The last `limit` entries of the transcript (of those before a position), in their order."""
    rows = Message.objects.filter(session=session)
    if before is not None:
        rows = rows.filter(position__lt=before)
    return list(reversed(rows.order_by("-position")[:limit]))


def calls_of(session: Session, since: datetime, until: datetime | None = None, limit: int = 1000) -> list[ToolCall]:
    """Calls that were made in a stretch of time, in order, with round, effect, approvals and who decided these."""
    rows = ToolCall.objects.filter(round__session=session, round__created_at__gte=since)
    if until is not None:
        rows = rows.filter(round__created_at__lt=until)
    approvals = Prefetch("approvals", Approval.objects.select_related("decided_by").order_by("version"))
    rows = rows.select_related("round", "effect").prefetch_related(approvals)
    return list(rows.order_by("round__position", "position")[:limit])


def count_running(tenant: Tenant) -> int:
    """How many run or are about to, exact below COUNT_LIMIT, which means that many or more."""
    return len(Session.objects.filter(tenant=tenant, state__in=("pending", "running")).values_list("id")[:COUNT_LIMIT])
