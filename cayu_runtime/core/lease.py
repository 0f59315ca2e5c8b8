"""Leases: who may write for a session, until when, under which fence (DESIGN §6)."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, connections
from django.db.models import Q

from ..models import Session
from . import clock, points
from .states import LEASED
from .transitions import transition

log = structlog.get_logger(__name__)

MAX_STALLS = 3


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for one session while its row carries this fence."""

    session: UUID
    tenant: UUID
    fence: int
    owner: str


def lease_length() -> timedelta:
    return timedelta(seconds=settings.CAYU_LEASE_SECONDS)


@dataclass(frozen=True, slots=True)
class Claim:
    """A fresh lease, and the session's row under it. `after_crash`: the holder before this one was lost."""

    lease: Lease
    session: Session
    after_crash: bool


def due(now: datetime, patience: timedelta = timedelta(0)) -> Q:
    """What a claim would take: runnable since `patience`, or held under a lease that is over."""
    return Q(state="pending", runnable_at__lte=now - patience) | Q(state__in=LEASED, lease_until__lte=now)


def claim(session: UUID, owner: str) -> Claim | None:
    """Take a session that is runnable and due, or whose lease is dead. None when there is nothing to take."""
    with transition(session) as change:
        row = change.session
        due = row.state == "pending" and row.runnable_at is not None and row.runnable_at <= change.now
        dead = row.state in LEASED and row.lease_until is not None and row.lease_until <= change.now
        if not (due or dead):
            return None
        until = change.now + lease_length()
        fence = row.fence + 1
        if due:
            change.session_to("running", lease_owner=owner, lease_until=until, fence=fence)
        else:
            change.set(lease_owner=owner, lease_until=until, fence=fence, stalls=row.stalls + 1)
            change.event("session.claimed_after_crash", fence=fence, owner=owner, stalls=row.stalls)
        return Claim(Lease(row.id, row.tenant_id, fence, owner), row, after_crash=dead)


def renew(lease: Lease) -> bool:
    """Prolong a lease that is still ours; False when it is not."""
    held = Session.objects.filter(pk=lease.session, fence=lease.fence, state__in=LEASED)
    until = clock.now() + lease_length()
    points.reached(points.BEFORE_COMMIT)
    renewed = held.update(lease_until=until) == 1
    points.reached(points.AFTER_COMMIT)
    return renewed


class Keeper:
    """Renews a lease each third of its length from a thread, until left, or until the running operation's deadline is
    over.

    A tool or a model that hangs past its deadline thus loses its session: somebody else may then decide what is true.
    """

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self._done = threading.Event()
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._renew, name=f"lease-{lease.session}", daemon=True)

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def until(self, seconds: float | None) -> None:
        """Renew for the length of one operation and one more lease, then no more (None: while we hold it)."""
        self._deadline = None if seconds is None else time.monotonic() + seconds + lease_length().total_seconds()

    def _renew(self) -> None:
        try:
            while not self._done.wait(lease_length().total_seconds() / 3):
                try:
                    if self._deadline is not None and time.monotonic() > self._deadline:
                        continue
                    if not renew(self.lease):
                        return
                except DatabaseError as error:
                    log.warning("lease.renewal_failed", session=str(self.lease.session), error=type(error).__name__)
                    connections.close_all()
        finally:
            connections.close_all()
