from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import F, Q

from ..core.ids import new_id
from .fields import JSONTextField
from .tenant import Tenant


class Grant(models.Model):
    """A standing grant: an approver lets calls of one tool in a range pass until a moment, at most `max_uses` times.

    `rules` is the range (`core/grant_rules`). Empty `agent` means every agent. `uses` counts the calls that were let
    through, `last_used_at` is when one of them was dispatched last. It is never deleted: it is over by time, by its
    uses, by being taken back, or by a quarantine after a restored backup, which may not know of its end.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    tool = models.CharField(max_length=100)
    tool_version = models.CharField(max_length=40)
    agent = models.CharField(max_length=100, default="")
    rules = JSONTextField()
    reason = models.CharField(max_length=500)
    made_by = models.CharField(max_length=200)
    made_by_name = models.CharField(max_length=200)
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    max_uses = models.IntegerField()
    uses = models.IntegerField(default=0)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.CharField(max_length=200, default="")
    revoked_by_name = models.CharField(max_length=200, default="")
    revoke_reason = models.CharField(max_length=500, default="")

    class Meta:
        constraints = (
            models.CheckConstraint(condition=~Q(tool="") & ~Q(tool_version=""), name="grant_names_its_tool"),
            models.CheckConstraint(condition=~Q(reason="") & ~Q(made_by=""), name="grant_says_who_and_why"),
            models.CheckConstraint(condition=Q(expires_at__gt=F("made_at")), name="grant_has_time"),
            models.CheckConstraint(
                condition=Q(max_uses__gte=1, uses__gte=0, uses__lte=F("max_uses")), name="grant_uses_bounded"
            ),
            models.CheckConstraint(
                condition=Q(last_used_at__isnull=True) | Q(uses__gte=1), name="grant_dispatched_was_used"
            ),
            models.CheckConstraint(
                condition=Q(revoked_at__isnull=True, revoked_by="", revoke_reason="")
                | (Q(revoked_at__isnull=False) & ~Q(revoked_by="") & ~Q(revoke_reason="")),
                name="grant_revoked_by_someone",
            ),
        )
        indexes = (
            # T1: is there a grant for this tool?
            models.Index(fields=("tenant", "tool"), name="grant_live", condition=Q(revoked_at__isnull=True)),
            # the page: newest first
            models.Index(fields=("tenant", "-made_at", "-id"), name="grant_newest"),
        )

    def __str__(self) -> str:
        return f"{self.tool} {self.tool_version}, {self.uses} of {self.max_uses} uses"

    def state_at(self, moment: datetime) -> str:
        """`live`, `revoked`, `expired` or `used_up`, by this row alone."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at <= moment:
            return "expired"
        return "used_up" if self.uses >= self.max_uses else "live"
