"""The sweep: expires what is due and rings for what is runnable and unheld. Idempotent; it runs nothing itself."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from uuid import UUID

import structlog
from django.conf import settings
from django.db.models import Q

from ..core import clock, decisions, doorbell
from ..core.states import LEASED
from ..errors import LostRace
from ..models import Approval, Session

log = structlog.get_logger(__name__)

BATCH = 200


@dataclass(slots=True)
class Sweep:
    """One sweeper. It remembers for a lease's length whom it rang for, so that a backlog is not rung for again each
    second.
    """

    rung: dict[UUID, float] = field(default_factory=dict)

    def once(self) -> tuple[int, int]:
        """(approvals expired, sessions rung for)."""
        return expire_due(), self.ring_runnable()

    def ring_runnable(self) -> int:
        moment, now = time.monotonic(), clock.now()
        self.rung = {s: at for s, at in self.rung.items() if moment - at < settings.CAYU_LEASE_SECONDS}
        due = Q(state="pending", runnable_at__lte=now) | Q(state__in=LEASED, lease_until__lte=now)
        waiting = Session.objects.filter(due).order_by("runnable_at").values_list("id", flat=True)[:BATCH]
        fresh = [session for session in waiting if session not in self.rung]
        for session in fresh:
            doorbell.ring(session)
            self.rung[session] = moment
        return len(fresh)


def expire_due() -> int:
    """Expire approvals whose time is over, one transaction each."""
    due = Approval.objects.filter(state__in=("pending", "approved"), expires_at__lte=clock.now())
    expired = 0
    for approval, session in due.order_by("expires_at").values_list("id", "session_id")[:BATCH]:
        try:
            expired += decisions.expire(session, approval)
        except LostRace:
            log.info("sweep.lost_race", approval=str(approval))
    return expired
