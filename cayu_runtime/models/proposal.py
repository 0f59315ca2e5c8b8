from __future__ import annotations

from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from ..core.ids import new_id
from ..core.states import PROPOSAL
from .call import ToolCall
from .fields import DigestField, JSONTextField, StateField, one_of, set_exactly_in, whole_digests
from .session import Session
from .tenant import Tenant

MAX_FIELDS = 8 * 1024
MAX_TEXT = 6 * MAX_FIELDS  # its text escapes what is not ASCII


class Proposal(models.Model):
    """Bounded, non-secret review fields for one named tool, recorded in an earlier round under a stable `action_id`.

    `fields` are the arguments of the action that is proposed, `action_id` among them, at most MAX_FIELDS bytes of
    canonical JSON. `used_by` is the call that was dispatched under it; `reason` says why one was withdrawn.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session = models.ForeignKey(Session, models.PROTECT)
    recorded_by = models.ForeignKey(ToolCall, models.PROTECT, null=True, related_name="proposals")
    round_position = models.IntegerField()
    action_id = models.CharField(max_length=200)
    tool = models.CharField(max_length=100)
    fields = JSONTextField()
    fields_digest = DigestField(max_length=32)
    state = StateField(max_length=12)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    used_by = models.ForeignKey(ToolCall, models.PROTECT, null=True, related_name="+", db_index=False)
    reason = models.CharField(max_length=500, default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "action_id"), name="proposal_action_unique_in_tenant"),
            one_of("proposal", "state", PROPOSAL.names),
            whole_digests("proposal", "fields_digest"),
            set_exactly_in("proposal", "closed_at", "state", PROPOSAL.final),
            set_exactly_in("proposal", "used_by", "state", ("used",)),
            models.CheckConstraint(condition=models.Q(expires_at__gt=models.F("created_at")), name="proposal_has_time"),
            models.CheckConstraint(condition=models.Q(round_position__gte=0), name="proposal_round_not_negative"),
            models.CheckConstraint(condition=LessThanOrEqual(Length("fields"), MAX_TEXT), name="proposal_is_bounded"),
            # `op_` begins the operations that have no proposal; none of them can be claimed by one
            models.CheckConstraint(
                condition=~models.Q(action_id__startswith="op_"), name="proposal_claims_no_other_operation"
            ),
        )
        indexes = (
            # the sweep: what is due
            models.Index(fields=("expires_at",), name="proposal_due", condition=models.Q(state="open")),
        )

    def __str__(self) -> str:
        return f"{self.action_id} for {self.tool}"
