"""The sweep: expires what is due and rings for what waits and nobody takes. Idempotent; it runs nothing itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce

from ..core import agreement, clock, decisions, doorbell, questions, reviewed
from ..core.lease import due
from ..models import Approval, Proposal, Question, Session
from ..services.idempotency import forget_keys
from .beats import Waiting

log = structlog.get_logger(__name__)

BATCH = 200
# What has just become runnable has its own wake-up under way.
PATIENCE = timedelta(seconds=1)
# A wake-up that was taken and did not help is repeated after so long.
AGAIN_SECONDS = 2.0


@dataclass(slots=True)
class Sweep:
    """One sweeper. It remembers for whom it rang, and since when it has seen what waits.

    `rung` and `seen` hold moments of this process's monotonic clock.
    """

    rung: dict[UUID, float] = field(default_factory=dict)
    seen: dict[Hashable, float] = field(default_factory=dict)
    waiting: Waiting = field(default_factory=Waiting)

    def once(self) -> tuple[int, int]:
        """(approvals, questions and proposals expired, sessions rung for). Idempotency keys that are over go too."""
        forget_keys()
        return expire_due(), self.ring_runnable()

    def ring_runnable(self) -> int:
        """Put wake-ups in the queue, unless as many lie there already as sessions wait.

        Whoever takes one runs the session whose turn it is, so it is their number that counts. A session that is still
        waiting after a lease's length is rung for in any case: what lies in the queue may be somebody else's.
        """
        moment, now = time.monotonic(), clock.now()
        overdue = due(now, PATIENCE)
        rows = Session.objects.filter(overdue).order_by(Coalesce("runnable_at", "lease_until"))
        waiting = list(rows.values_list("id", flat=True)[:BATCH])
        bells = doorbell.unanswered(BATCH)
        self.seen = {one: self.seen.get(one, moment) for one in (*waiting, *bells)}
        self.waiting = Waiting(moment, min(self.seen.values(), default=None))
        again = settings.CAYU_LEASE_SECONDS if len(bells) >= len(waiting) else AGAIN_SECONDS
        self.rung = {session: self.rung.get(session, moment - AGAIN_SECONDS) for session in waiting}
        silent = [session for session, at in self.rung.items() if moment - at >= again]
        if not silent:
            return 0
        with transaction.atomic():
            free = unlocked(overdue, silent)
            doorbell.ring_all(free)
        self.rung |= dict.fromkeys(silent, moment)
        return len(free)


def expire_due() -> int:
    """Expire approvals, questions and proposals whose time is over, one transaction each, and escalate approvals.

    What somebody is just moving comes next time. Approvals first: with one ends the proposal that it is bound to.
    """
    now = clock.now()
    approvals = Approval.objects.filter(state__in=("pending", "approved"), expires_at__lte=now)
    proposals = Proposal.objects.filter(state="open", expires_at__lte=now)
    asked = Question.objects.filter(state="pending", expires_at__lte=now)
    expired = _expire_all(approvals, decisions.expire) + _expire_all(asked, questions.expire)
    late = Approval.objects.filter(state="pending", escalate_at__lte=now)
    _expire_all(late, agreement.escalate, by="escalate_at")
    return expired + _expire_all(proposals, reviewed.expire_proposal)


def _expire_all(rows: QuerySet[Any], expire: Callable[[UUID, UUID], bool], by: str = "expires_at") -> int:
    over = list(rows.order_by(by).values_list("id", "session_id")[:BATCH])
    if not over:
        return 0
    with transaction.atomic():
        free = set(unlocked(Q(), {session for _, session in over}))
    return sum(_expire(expire, session, row) for row, session in over if session in free)


def _expire(expire: Callable[[UUID, UUID], bool], session: UUID, row: UUID) -> bool:
    try:
        return expire(session, row)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        log.warning("sweep.not_expired", row=str(row), session=str(session), error=type(error).__name__)
        return False


def unlocked(condition: Q, sessions: Iterable[UUID]) -> list[UUID]:
    """Lock those of the sessions that still fit and that nobody else has locked: another sweep, or who moves them.

    So no sweep waits for a row, and two at the same moment do not ring for one session. SQLite has one writer anyway.
    """
    rows = Session.objects.filter(condition, pk__in=list(sessions))
    if connection.vendor != "sqlite":
        rows = rows.select_for_update(skip_locked=True, no_key=True)
    return list(rows.values_list("id", flat=True))
