"""Wake-ups: a queue task that carries one id. The row decides what is to be done (DESIGN §6).

The queue's table lies in the same database, so a ring inside a transaction is rolled back with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.utils import timezone
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.tasks import async_task

from .statements import insert

ENTRY = "cayu_runtime.worker.tasks.run_session"


def ring(session: UUID) -> None:
    """Ask a worker to look at this session. May be lost or repeated; the sweep and the claim make up for both."""
    ring_all((session,))


def ring_all(sessions: Sequence[UUID]) -> None:
    """The same for many, with one statement."""
    packages = _Packages()
    for session in sessions:
        async_task(ENTRY, str(session), broker=packages)
    now = timezone.now()
    insert([OrmQ(key=packages.list_key, payload=payload, lock=now) for payload in packages.payloads])


def unanswered(limit: int) -> list[int]:
    """Wake-ups that lie in the queue and that no worker has taken yet."""
    rows = OrmQ.objects.filter(key=Conf.CLUSTER_NAME, lock__lte=timezone.now())
    return list(rows.values_list("id", flat=True)[:limit])


class _Packages:
    """Stands where q2 expects a broker, and keeps what is to be put in the queue."""

    list_key = Conf.CLUSTER_NAME

    def __init__(self) -> None:
        self.payloads: list[str] = []

    def enqueue(self, payload: str) -> None:
        self.payloads.append(payload)
