from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Prefetch, Q

from ..core.statements import find
from ..core.states import ENDED_SESSION, LEASED
from ..models import (
    Approval,
    Attempt,
    EffectRecord,
    Event,
    Message,
    Proposal,
    Question,
    Session,
    Tenant,
    ToolCall,
    ToolRound,
)
from .effect import UNCERTAIN

PAGE = 50
COUNT_LIMIT = 100
MATTERS = 20


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions of a tenant a list shows; what is empty does not narrow it."""

    state: str = ""
    interruption: str = ""
    agent: str = ""
    requester: str = ""
    prefix: str = ""

    @property
    def conditions(self) -> dict[str, str]:
        given = {
            "state": self.state,
            "interruption": self.interruption,
            "agent": self.agent,
            "requester": self.requester,
            "session_id__startswith": self.prefix,
        }
        return {name: value for name, value in given.items() if value}


EVERYTHING = SessionFilter()


def find_session(tenant: Tenant, session_id: str) -> Session | None:
    return find(Session, tenant=tenant, session_id=session_id)


def newest_sessions(
    tenant: Tenant,
    before: tuple[datetime, uuid.UUID] | None = None,
    limit: int = PAGE,
    only: SessionFilter = EVERYTHING,
) -> list[Session]:
    """A page of sessions, newest first; `before` is the last row's (created_at, id)."""
    rows = Session.objects.filter(tenant=tenant, **only.conditions)
    if before is not None:
        rows = rows.filter(Q(created_at__lt=before[0]) | Q(created_at=before[0], id__lt=before[1]))
    return list(rows.order_by("-created_at", "-id")[:limit])


def any_session(tenant: Tenant) -> bool:
    return Session.objects.filter(tenant=tenant).exists()


def waiting_for(tenant: Tenant, subject: str, sessions: Iterable[Session], now: datetime) -> set[uuid.UUID]:
    """Of these sessions, those with a pending approval that this person did not ask for (where four eyes are needed).

    Whether they may decide at all is the authority's answer, not this one's.
    """
    asked = [session.pk for session in sessions if session.interruption == "approval_required"]
    rows = Approval.objects.filter(tenant=tenant, session__in=asked, state="pending", expires_at__gt=now)
    return set(rows.exclude(four_eyes=True, requester=subject).values_list("session_id", flat=True))


def matters_of(session: Session) -> list[Approval] | list[EffectRecord] | list[Question]:
    """What an interrupted session waits for, the first MATTERS of it; empty when it waits for no row."""
    match session.interruption:
        case "approval_required":
            approvals = Approval.objects.filter(session=session, state="pending")
            return list(approvals.order_by("expires_at", "id")[:MATTERS])
        case "effect_outcome_unknown":
            effects = EffectRecord.objects.filter(session=session, state__in=UNCERTAIN).select_related("call")
            return list(effects.order_by("unknown_since", "id")[:MATTERS])
        case "user_input_required":
            return list(
                Question.objects.filter(session=session, state="pending").order_by("expires_at", "id")[:MATTERS]
            )
        case _:
            return []


def limit_reached_by(session: Session) -> str:
    """Which limit stopped a session, and whose it is, as it was recorded; empty if none did."""
    if session.interruption != "limit_reached":
        return ""
    told = Event.objects.filter(session=session, type="session.limit_reached").order_by("-seq").first()
    return str(told.payload.get("reason", "")) if told is not None else ""


def count_open(tenant: Tenant, limit: int) -> int:
    """How many sessions have not ended, exact below `limit`, which means that many or more."""
    return Session.objects.filter(tenant=tenant).exclude(state__in=ENDED_SESSION).values("pk")[:limit].count()


def stopped_sessions(tenant: Tenant, limit: int = PAGE) -> list[Session]:
    """Sessions that something stopped, and that go on when it is lifted; longest first."""
    rows = Session.objects.filter(tenant=tenant, stopped_by__isnull=False).exclude(state__in=("completed", "failed"))
    return list(rows.order_by("updated_at")[:limit])


def stalled_sessions(tenant: Tenant, limit: int = PAGE) -> list[Session]:
    """Sessions whose worker was lost, and which another one has taken over or is to take over."""
    return list(Session.objects.filter(tenant=tenant, state__in=LEASED, stalls__gt=0).order_by("lease_until")[:limit])


def backing_off(tenant: Tenant, limit: int = PAGE) -> list[Session]:
    """Sessions whose model gave no answer, and is to be tried again; the next one first."""
    rows = Session.objects.filter(tenant=tenant, state="pending", model_failures__gt=0)
    return list(rows.order_by("runnable_at")[:limit])


def agents_in_use(tenant: Tenant, limit: int = 1000) -> dict[str, set[str]]:
    """Agents whose sessions run or wait for somebody, with the tools that are waited for; each list up to a limit."""
    found: dict[str, set[str]] = {}
    pending = Session.objects.filter(tenant=tenant, state="pending").values_list("agent", flat=True)[:limit]
    for agent in pending:
        found.setdefault(agent, set())
    approvals = Approval.objects.filter(tenant=tenant, state="pending").values_list("agent", "tool")[:limit]
    effects = EffectRecord.objects.filter(tenant=tenant, state__in=UNCERTAIN).values_list("session__agent", "tool")
    questions = Question.objects.filter(tenant=tenant, state="pending").values_list("agent", "call__tool")[:limit]
    for agent, tool in (*approvals, *effects[:limit], *questions):
        found.setdefault(agent, set()).add(tool)
    return found


def has_open_round(session: Session) -> bool:
    return ToolRound.objects.filter(session=session, state__in=("waiting", "executing")).exists()


def events_of(session: Session, after: int = 0, limit: int = 500) -> list[Event]:
    return list(Event.objects.filter(session=session, seq__gt=after).order_by("seq")[:limit])


def messages_of(session: Session, before: int | None = None, limit: int = 500) -> list[Message]:
    """The last `limit` entries of the transcript (of those before a position), in their order."""
    rows = Message.objects.filter(session=session)
    if before is not None:
        rows = rows.filter(position__lt=before)
    return list(reversed(rows.order_by("-position")[:limit]))


def messages_after(session: Session, after: int, limit: int) -> list[Message]:
    """The transcript from its beginning, or from behind a position."""
    return list(Message.objects.filter(session=session, position__gt=after).order_by("position")[:limit])


def calls_of(session: Session, since: datetime, until: datetime | None = None, limit: int = 1000) -> list[ToolCall]:
    """Calls that were made in a stretch of time, in order, with round, approvals and who decided these, effect and its
    attempts, its question, the proposal that each refers to, and those that it put on record.
    """
    rows = ToolCall.objects.filter(round__session=session, round__created_at__gte=since)
    if until is not None:
        rows = rows.filter(round__created_at__lt=until)
    approvals = Prefetch("approvals", Approval.objects.select_related("decided_by").order_by("version"))
    attempts = Prefetch("effect__attempts", Attempt.objects.only("id", "effect_id"))
    proposals = Prefetch("proposals", Proposal.objects.order_by("created_at", "id"))
    rows = rows.select_related("round", "effect", "proposal", "question").prefetch_related(
        approvals, attempts, proposals
    )
    return list(rows.order_by("round__position", "position")[:limit])


def count_running(tenant: Tenant) -> int:
    """How many run or are about to, exact below COUNT_LIMIT, which means that many or more."""
    return len(Session.objects.filter(tenant=tenant, state__in=("pending", "running")).values_list("id")[:COUNT_LIMIT])
