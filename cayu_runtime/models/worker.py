from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..core.ids import new_id


class Worker(models.Model):
    """One life of one worker process, as its last heartbeat told. Its supervisor writes the row each second.

    It belongs to the deployment, not to a tenant: it tells probes and operators whether somebody works, and on what.
    `place` names the running system and its numbering of processes, where that is known. `ended_at` is written once the
    process is seen to be gone: only then an absence downstream may prove that its dispatch will not arrive any more.
    No lease depends on it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    host = models.CharField(max_length=100)
    place = models.CharField(max_length=80, default="")
    supervisor = models.IntegerField()
    pid = models.IntegerField()
    tasks = models.BigIntegerField()
    session = models.UUIDField(null=True)
    busy_since = models.DateTimeField(null=True)
    leaving = models.BooleanField()
    started_at = models.DateTimeField()
    beat_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(session__isnull=True) | Q(busy_since__isnull=False), name="worker_with_session_is_busy"
            ),
        )

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
