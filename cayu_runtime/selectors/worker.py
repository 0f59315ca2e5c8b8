from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models.functions import Now

from ..core.states import LEASED
from ..models import Approval, Session, Worker


def recent_workers(within: timedelta) -> list[Worker]:
    """Workers whose heartbeat was written within so long, by the database's clock, and who take more work."""
    return list(Worker.objects.filter(leaving=False, ended_at=None, beat_at__gt=Now() - within).order_by("-beat_at"))


def is_unswept(after: timedelta) -> bool:
    """Whether something is overdue by so long that the sweep should have moved: a dead lease, an approval's end."""
    dead = Session.objects.filter(state__in=LEASED, lease_until__lt=Now() - after)
    expired = Approval.objects.filter(state__in=("pending", "approved"), expires_at__lt=Now() - after)
    return dead.exists() or expired.exists()


def is_unheard(after: timedelta) -> bool:
    """Whether a runnable session has waited so long for a worker."""
    return Session.objects.filter(state="pending", runnable_at__lt=Now() - after).exists()


def is_known_to_be_gone(name: str, since: datetime) -> bool:
    """Whether the worker process that was called `name` (host:pid) at that moment is known to have ended.

    It was seen to be gone, or a later worker has its number. Not knowing is not knowing: False.
    """
    host, _, number = name.rpartition(":")
    if not host or not number.isdecimal():
        return False
    lives = Worker.objects.filter(host=host, pid=int(number))
    ended = lives.filter(started_at__lte=since, ended_at__isnull=False)
    return ended.exists() or lives.filter(started_at__gt=since).exists()


def lived_through(moment: datetime) -> bool:
    """Whether a worker that had started by this moment was heard after it, and is not known to have ended."""
    return Worker.objects.filter(started_at__lte=moment, beat_at__gt=moment, ended_at=None).exists()
