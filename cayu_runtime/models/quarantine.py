from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..core.ids import new_id
from .tenant import Tenant


class Quarantine(models.Model):
    """What was done after a database had been restored from a backup, for one tenant or (without one) for all.

    While it is open a DispatchPause refers to it, and nothing is dispatched. `cursor` is the last session that was gone
    through, in the order of their ids; `taken_at` says when all had been. `newest_record_at` is the time of the
    newest event then: what happened after that, the restored rows do not know. The row stays when it is released.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True)
    reason = models.CharField(max_length=500)
    started_by = models.CharField(max_length=200)
    started_by_name = models.CharField(max_length=200)
    started_at = models.DateTimeField()
    newest_record_at = models.DateTimeField(null=True)
    cursor = models.UUIDField(null=True)
    taken_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)
    released_by = models.CharField(max_length=200, default="")
    release_reason = models.CharField(max_length=500, default="")

    class Meta:
        constraints = (
            models.CheckConstraint(condition=~Q(reason=""), name="quarantine_says_why"),
            models.CheckConstraint(
                condition=Q(released_at__isnull=True, released_by="", release_reason="")
                | (
                    Q(released_at__isnull=False, taken_at__isnull=False, released_at__gte=models.F("taken_at"))
                    & ~Q(released_by="")
                    & ~Q(release_reason="")
                ),
                name="quarantine_released_by_someone_when_whole",
            ),
        )

    def __str__(self) -> str:
        return self.reason
