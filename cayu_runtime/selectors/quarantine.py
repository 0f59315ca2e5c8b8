from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from ..core.states import SESSION
from ..models import EffectRecord, Event, Quarantine, Session, Tenant
from .effect import UNCERTAIN

ENDED = ("completed", "failed")
UNENDED = tuple(name for name in SESSION.names if name not in ENDED)


def open_quarantine(tenant: Tenant | None) -> Quarantine | None:
    """The quarantine of this tenant, or (None) the one of the whole deployment, that is not released."""
    return Quarantine.objects.select_related("tenant").filter(tenant=tenant, pause__isnull=False).first()


def last_quarantine(tenant: Tenant | None) -> Quarantine | None:
    """The newest quarantine of this tenant, or (None) of the whole deployment, released or not."""
    return Quarantine.objects.select_related("tenant").filter(tenant=tenant).order_by("-started_at", "-id").first()


def open_quarantines() -> list[Quarantine]:
    rows = Quarantine.objects.select_related("tenant").filter(pause__isnull=False)
    return list(rows.order_by("started_at", "id"))


def newest_record() -> datetime | None:
    """When the newest event of the deployment was written: what happened after that, these rows do not know."""
    return Event.objects.order_by("-id").values_list("at", flat=True).first()


def sessions_to_take(quarantine: Quarantine, limit: int) -> list[UUID]:
    """The next sessions, by id, that had begun before the quarantine and have not ended. The primary key is walked
    once, however many sessions have ended.
    """
    rows = Session.objects.filter(state__in=UNENDED, created_at__lte=quarantine.started_at)
    if quarantine.tenant_id is not None:
        rows = rows.filter(tenant=quarantine.tenant_id)
    if quarantine.cursor is not None:
        rows = rows.filter(id__gt=quarantine.cursor)
    return list(rows.order_by("id").values_list("id", flat=True)[:limit])


def still_unknown(tenant: Tenant, after: UUID | None = None, limit: int = 200) -> list[EffectRecord]:
    """Quarantined effects of which still nobody knows whether they happened, by id; given-up ones hold nothing up."""
    rows = _unknown().filter(tenant=tenant)
    if after is not None:
        rows = rows.filter(id__gt=after)
    return list(rows.select_related("session", "call", "tenant").order_by("tenant_id", "id")[:limit])


def _unknown() -> QuerySet[EffectRecord]:
    return EffectRecord.objects.filter(state__in=UNCERTAIN, quarantined_at__isnull=False, abandoned_at=None)


def stopped_sessions(quarantine: Quarantine, after: UUID | None, limit: int) -> list[Session]:
    """The next sessions, by id, that had begun before this quarantine and that somebody stopped."""
    rows = Session.objects.select_related("tenant").filter(
        state="interrupted", stopped_by="operator_requested", created_at__lte=quarantine.started_at
    )
    if quarantine.tenant_id is not None:
        rows = rows.filter(tenant=quarantine.tenant_id)
    if after is not None:
        rows = rows.filter(id__gt=after)
    return list(rows.order_by("id")[:limit])


def was_stopped_by_quarantine(session: Session) -> bool:
    """Whether the last that was asked of this session was the stop of a quarantine."""
    kinds = ("session.quarantined", "session.stop_requested", "session.resume_requested", "session.continued")
    last = Event.objects.filter(session=session, type__in=kinds).order_by("-seq").first()
    return last is not None and last.type == "session.quarantined" and bool(last.payload.get("stopped"))
