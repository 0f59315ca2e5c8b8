from __future__ import annotations

from ..models import Approval, EffectRecord, Event, Message, Session, Tenant, ToolCall, ToolRound


def find_session(tenant: Tenant, session_id: str) -> Session | None:
    return Session.objects.filter(tenant=tenant, session_id=session_id).first()


def newest_sessions(tenant: Tenant, limit: int = 50) -> list[Session]:
    return list(Session.objects.filter(tenant=tenant).order_by("-created_at", "-id")[:limit])


def events_of(session: Session, after: int = 0, limit: int = 500) -> list[Event]:
    return list(Event.objects.filter(session=session, seq__gt=after).order_by("seq")[:limit])


def messages_of(session: Session, limit: int = 500) -> list[Message]:
    return list(Message.objects.filter(session=session).order_by("position")[:limit])


def rounds_of(session: Session, limit: int = 100) -> list[ToolRound]:
    return list(ToolRound.objects.filter(session=session).order_by("position")[:limit])


def calls_of(session: Session, limit: int = 500) -> list[ToolCall]:
    rows = ToolCall.objects.filter(round__session=session).select_related("round")
    return list(rows.order_by("round__position", "position")[:limit])


def effects_of(session: Session) -> list[EffectRecord]:
    return list(EffectRecord.objects.filter(session=session))


def approvals_of(session: Session) -> list[Approval]:
    return list(Approval.objects.filter(session=session).select_related("decided_by").order_by("created_at"))


def count_running(tenant: Tenant) -> int:
    return Session.objects.filter(tenant=tenant, state__in=("pending", "running")).count()
