from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..core.ids import new_id
from .quarantine import Quarantine
from .tenant import Tenant


class DispatchPause(models.Model):
    """The kill switch: while a row stands, what it names is not dispatched. Empty `tool` or `agent` means all of them.

    Without a tenant it holds for the whole deployment. Who resumes deletes the row; the events of the paused calls
    stay. One that a `quarantine` made holds everything, and only its release lifts it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True)
    tool = models.CharField(max_length=100, default="", blank=True)
    agent = models.CharField(max_length=100, default="", blank=True)
    quarantine = models.OneToOneField(Quarantine, models.PROTECT, null=True, related_name="pause")
    reason = models.CharField(max_length=500)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "tool", "agent"),
                name="pause_unique",
                condition=Q(tenant__isnull=False, quarantine__isnull=True),
            ),
            models.UniqueConstraint(
                fields=("tool", "agent"),
                name="pause_unique_everywhere",
                condition=Q(tenant__isnull=True, quarantine__isnull=True),
            ),
            # one open quarantine for a tenant, and one for all of them
            models.UniqueConstraint(
                fields=("tenant",),
                name="pause_one_quarantine",
                condition=Q(tenant__isnull=False, quarantine__isnull=False),
            ),
            models.UniqueConstraint(
                fields=("tool",),
                name="pause_one_quarantine_everywhere",
                condition=Q(tenant__isnull=True, quarantine__isnull=False),
            ),
            models.CheckConstraint(
                condition=Q(quarantine__isnull=True) | Q(tool="", agent=""), name="pause_quarantine_holds_all"
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="pause_says_why"),
        )

    def __str__(self) -> str:
        return self.reason
