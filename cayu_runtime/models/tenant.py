from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..core.ids import new_id
from .fields import DigestField, whole_digests


class Tenant(models.Model):
    """The owner of every row. No row without one, no read without one.

    `max_…` limit what it may have at once, null: no limit. Sessions that have not ended; requests of one agent that
    wait for people; model steps of one session in a row (docs/limits.md).
    `step_up`: to decide about an EXTERNAL effect takes a fresh sign-in.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    step_up = models.BooleanField(default=False)
    audit_seq = models.BigIntegerField(default=0)
    audit_hash = DigestField(max_length=32, default=bytes(32))
    max_running_sessions = models.IntegerField(null=True)
    max_pending_approvals = models.IntegerField(null=True)
    max_steps = models.IntegerField(null=True)

    class Meta:
        constraints = (
            whole_digests("tenant", "audit_hash"),
            models.CheckConstraint(
                condition=Q(max_running_sessions__gte=1, max_pending_approvals__gte=1, max_steps__gte=1),
                name="tenant_limits_allow_one",
            ),
        )

    def __str__(self) -> str:
        return self.name
