from __future__ import annotations

from django.db import models

from ..core.ids import new_id
from .tenant import Tenant


class DispatchPause(models.Model):
    """The kill switch: while a row stands, what it names is not dispatched. Empty `tool` or `agent` means all of them.

    Without a tenant it holds for the whole deployment. Who resumes deletes the row; the events of the paused calls
    stay.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True)
    tool = models.CharField(max_length=100, default="", blank=True)
    agent = models.CharField(max_length=100, default="", blank=True)
    reason = models.CharField(max_length=500)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "tool", "agent"), name="pause_unique", condition=models.Q(tenant__isnull=False)
            ),
            models.UniqueConstraint(
                fields=("tool", "agent"), name="pause_unique_everywhere", condition=models.Q(tenant__isnull=True)
            ),
            models.CheckConstraint(condition=~models.Q(reason=""), name="pause_says_why"),
        )

    def __str__(self) -> str:
        return self.reason
