from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models.functions import Now

from ..core.states import LEASED
from ..models import Approval, Question, Session, Worker


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


def overdue() -> list[tuple[str, datetime]]:
    """The oldest row of each kind that the sweep or a worker is to move: what it is, and since when it is due."""
    leased = Session.objects.filter(state__in=LEASED, lease_until__lt=Now()).order_by("lease_until")
    pending = Session.objects.filter(state="pending", runnable_at__lt=Now()).order_by("runnable_at")
    approvals = Approval.objects.filter(state__in=("pending", "approved"), expires_at__lt=Now()).order_by("expires_at")
    questions = Question.objects.filter(state="pending", expires_at__lt=Now()).order_by("expires_at")
    oldest = (
        ("a session whose worker was lost", leased.values_list("lease_until", flat=True).first()),
        ("a session that could run", pending.values_list("runnable_at", flat=True).first()),
        ("an approval whose time is over", approvals.values_list("expires_at", flat=True).first()),
        ("a question whose time is over", questions.values_list("expires_at", flat=True).first()),
    )
    return [(what, since) for what, since in oldest if since is not None]


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
