from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from ..models import Question, Session, Tenant

PAGE = 50
COUNT_LIMIT = 100


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One open question as the queue shows it, read from its row alone."""

    id: uuid.UUID
    text: str
    choices: list[str] | None
    agent: str
    task: str
    requester: str
    requester_name: str
    created_at: datetime
    expires_at: datetime


COLUMNS = tuple(QuestionRow.__dataclass_fields__)


def waiting(tenant: Tenant, after: tuple[datetime, uuid.UUID] | None = None, limit: int = PAGE) -> list[QuestionRow]:
    """A page of what waits for an answer, soonest to expire first; `after` is the last row's (expires_at, id)."""
    rows = Question.objects.filter(tenant=tenant, state="pending")
    if after is not None:
        rows = rows.filter(Q(expires_at__gt=after[0]) | Q(expires_at=after[0], id__gt=after[1]))
    return [QuestionRow(*row) for row in rows.order_by("expires_at", "id").values_list(*COLUMNS)[:limit]]


def count_waiting(tenant: Tenant) -> int:
    """How many wait, exact below COUNT_LIMIT, which means that many or more."""
    return len(Question.objects.filter(tenant=tenant, state="pending").values_list("id")[:COUNT_LIMIT])


def next_waiting(tenant: Tenant, after: tuple[datetime, uuid.UUID], now: datetime, limit: int = 5) -> list[Question]:
    """The open questions that follow `after` in the queue's order; where none does, the first ones."""
    rows = Question.objects.filter(tenant=tenant, state="pending", expires_at__gt=now).order_by("expires_at", "id")
    later = rows.filter(Q(expires_at__gt=after[0]) | Q(expires_at=after[0], id__gt=after[1]))
    return list(later[:limit]) or list(rows[:limit])


def find_question(tenant: Tenant, question_id: uuid.UUID) -> Question | None:
    return Question.objects.select_related("session", "call").filter(tenant=tenant, pk=question_id).first()


def last_answered(tenant: Tenant) -> Question | None:
    """The latest answered question of the tenant, for an empty queue's truth."""
    return Question.objects.filter(tenant=tenant, state="answered").order_by("-closed_at").first()


def open_questions(
    tenant: Tenant,
    session: Session | None = None,
    after: tuple[datetime, uuid.UUID] | None = None,
    limit: int = PAGE,
) -> list[Question]:
    """As `waiting`, of one session or of the tenant, as whole rows with their sessions."""
    rows = Question.objects.filter(tenant=tenant, state="pending").select_related("session", "call")
    if session is not None:
        rows = rows.filter(session=session)
    if after is not None:
        rows = rows.filter(Q(expires_at__gt=after[0]) | Q(expires_at=after[0], id__gt=after[1]))
    return list(rows.order_by("expires_at", "id")[:limit])
