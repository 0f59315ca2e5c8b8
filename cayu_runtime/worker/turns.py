"""Whose turn it is: tenants in a circle, and of one tenant the session that the wake-up names, else the oldest.

A wake-up says that there is work. Whose is chosen when a worker is free, so that two hundred sessions of one tenant do
not stand before the one of another.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import structlog
from django.db import DatabaseError
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Coalesce

from ..core import clock, engine
from ..core.lease import due
from ..models import Session
from .duty import current

log = structlog.get_logger(__name__)

TRIES = 5
# A session runs at least so long before it gives way to another tenant's, and that one has waited so long.
FAIR_SECONDS = 5.0
LOOK_SECONDS = 1.0
BEFORE_ALL = UUID(int=0)
# A session that made its worker fail is left alone by it for so long.
AVOID_SECONDS = 30.0


@dataclass(slots=True)
class Turns:
    """The order in which one worker process serves."""

    tenant: UUID = BEFORE_ALL
    avoided: dict[UUID, float] = field(default_factory=dict)

    def take(self, owner: str, named: UUID) -> bool:
        """Run the session whose turn it is. False when there is none; or others were faster, who then run them."""
        for _ in range(TRIES):
            chosen = self.next(named)
            if chosen is None:
                return False
            session, self.tenant = chosen
            if self._run(session, owner):
                return True
        return False

    def next(self, named: UUID) -> tuple[UUID, UUID] | None:
        """The due session, and its tenant, that comes next in the circle.

        The named one before its tenant's others: workers who are woken at the same moment then seldom want the same.
        """
        moment = time.monotonic()
        self.avoided = {session: until for session, until in self.avoided.items() if until > moment}
        served, other = _truth(Q(tenant__lte=self.tenant)), _truth(~Q(pk=named))
        rows = Session.objects.filter(due(clock.now())).exclude(pk__in=self.avoided)
        rows = rows.order_by(served, "tenant", other, Coalesce("runnable_at", "lease_until"), "id")
        return rows.values_list("id", "tenant").first()

    def _run(self, session: UUID, owner: str) -> bool:
        with structlog.contextvars.bound_contextvars(session=str(session)):
            current.session = str(session)
            try:
                return engine.run_session(session, owner, Slice(self.tenant).is_over)
            except Exception:
                self.avoided[session] = time.monotonic() + AVOID_SECONDS
                log.exception("session.broke_off")
                return True
            finally:
                current.session = None


def _truth(condition: Q) -> ExpressionWrapper[Q]:
    """False sorts before true."""
    return ExpressionWrapper(condition, output_field=BooleanField())


class Slice:
    """The stretch of time in which a worker runs one session."""

    def __init__(self, tenant: UUID) -> None:
        self.tenant = tenant
        self._look = time.monotonic() + FAIR_SECONDS

    def is_over(self) -> bool:
        """Whether this worker leaves, or a session of another tenant has waited too long."""
        if current.leaving:
            return True
        if time.monotonic() < self._look:
            return False
        self._look = time.monotonic() + LOOK_SECONDS
        try:
            waiting = due(clock.now(), timedelta(seconds=FAIR_SECONDS))
            return Session.objects.filter(waiting).exclude(tenant=self.tenant).exists()
        except DatabaseError:
            return False  # the next step will meet the same, and says so
