from __future__ import annotations

from django.db import models

from ..core.ids import new_id
from ..core.states import PROPOSAL
from .call import ToolCall
from .fields import DigestField, JSONTextField, one_of, set_exactly_in
from .session import Session
from .tenant import Tenant


class Proposal(models.Model):
    """Bounded, non-secret review fields for one named tool, recorded in an earlier round under a stable `action_id`."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session = models.ForeignKey(Session, models.PROTECT)
    recorded_by = models.ForeignKey(ToolCall, models.PROTECT, null=True, related_name="proposals")
    round_position = models.IntegerField()
    action_id = models.CharField(max_length=200)
    tool = models.CharField(max_length=100)
    fields = JSONTextField()
    fields_digest = DigestField(max_length=32)
    state = models.CharField(max_length=12)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "action_id"), name="proposal_action_unique_in_tenant"),
            one_of("proposal", "state", PROPOSAL.names),
            set_exactly_in("proposal", "closed_at", "state", PROPOSAL.final),
            models.CheckConstraint(condition=models.Q(expires_at__gt=models.F("created_at")), name="proposal_has_time"),
        )
        indexes = (
            # the sweep: what is due
            models.Index(fields=("expires_at",), name="proposal_due", condition=models.Q(state="open")),
        )

    def __str__(self) -> str:
        return f"{self.action_id} for {self.tool}"
