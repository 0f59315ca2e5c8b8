from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..contracts import ToolEffect
from ..contracts.agreement import MAX_TIER
from ..core.ids import new_id
from ..core.states import APPROVAL
from .call import ToolCall
from .fields import DigestField, JSONTextField, StateField, one_of, set_exactly_in, set_whenever_in, whole_digests
from .grant import Grant
from .session import Session
from .tenant import Tenant

VERDICTS = ("approve", "edit", "deny", "revoke")
AGREED = ("approved", "consumed", "revoked")


class Approval(models.Model):
    """What is wanted for one call. Bound to the intent digest and to `version`, used once, never without a deadline.

    It carries what a queue row shows, so that a page of the queue is read from this table alone.

    `agreement` is what the policy wants beyond one approver (`contracts.Agreement.parameters`). While it is
    pending, `needed` more people of `tier` or above must agree in `stage`; one that is agreed needs nobody. `edited_by`
    is the subject of who changed the arguments last. With a `grant` nobody was asked: a standing grant let the call
    pass, and its maker stands in the decision.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session = models.ForeignKey(Session, models.PROTECT)
    call = models.ForeignKey(ToolCall, models.PROTECT, related_name="approvals")
    version = models.IntegerField(default=1)
    intent_digest = DigestField(max_length=32)
    agent = models.CharField(max_length=100)
    task = models.CharField(max_length=200)
    tool = models.CharField(max_length=100)
    verb = models.CharField(max_length=120)
    target = models.CharField(max_length=200, default="")
    effect_class = models.CharField(max_length=12)
    policy_reason = models.CharField(max_length=500, default="")
    requester = models.CharField(max_length=200)
    requester_name = models.CharField(max_length=200)
    four_eyes = models.BooleanField()
    editable = models.BooleanField(default=False)
    agreement = JSONTextField(null=True)
    stage = models.SmallIntegerField(default=0)
    needed = models.SmallIntegerField(default=1)
    tier = models.SmallIntegerField(default=1)
    escalate_at = models.DateTimeField(null=True)
    edited_by = models.CharField(max_length=200, default="")
    state = StateField(max_length=12)
    reason = models.CharField(max_length=500, default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey("Decision", models.PROTECT, null=True, related_name="+", db_index=False)
    grant = models.ForeignKey(Grant, models.PROTECT, null=True, related_name="approvals", db_index=False)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            one_of("approval", "state", APPROVAL.names),
            one_of("approval", "effect_class", tuple(e.value for e in ToolEffect)),
            set_exactly_in("approval", "closed_at", "state", APPROVAL.final),
            set_whenever_in("approval", "decided_at", "state", ("approved", "denied", "consumed", "revoked")),
            set_whenever_in("approval", "decided_by", "state", ("approved", "denied", "consumed", "revoked")),
            models.CheckConstraint(
                condition=Q(decided_at__isnull=True, decided_by__isnull=True)
                | Q(decided_at__isnull=False, decided_by__isnull=False),
                name="approval_decision_is_whole",
            ),
            models.CheckConstraint(
                condition=~Q(state="pending") | Q(decided_at__isnull=True), name="approval_pending_is_undecided"
            ),
            models.CheckConstraint(
                condition=Q(grant__isnull=True) | (Q(decided_at__isnull=False) & ~Q(state="denied")),
                name="approval_by_grant_is_decided",
            ),
            models.CheckConstraint(condition=Q(expires_at__gt=models.F("created_at")), name="approval_has_time"),
            models.CheckConstraint(condition=Q(version__gte=1), name="approval_version_positive"),
            whole_digests("approval", "intent_digest"),
            models.CheckConstraint(condition=~Q(state__in=AGREED) | Q(needed=0), name="approval_agreed_needs_nobody"),
            models.CheckConstraint(
                condition=~Q(state="pending") | Q(needed__gte=1), name="approval_pending_needs_people"
            ),
            models.CheckConstraint(condition=Q(tier__range=(1, MAX_TIER), stage__gte=0), name="approval_stage_known"),
            models.UniqueConstraint(fields=("call", "version"), name="approval_version_unique"),
            models.UniqueConstraint(
                fields=("call",), name="approval_one_live", condition=Q(state__in=("pending", "approved"))
            ),
        )
        indexes = (
            # the approval queue, soonest to expire first
            models.Index(fields=("tenant", "expires_at", "id"), name="approval_queue", condition=Q(state="pending")),
            # the sweep: what is due, over all tenants
            models.Index(fields=("expires_at",), name="approval_due", condition=Q(state__in=("pending", "approved"))),
            models.Index(
                fields=("escalate_at",),
                name="approval_escalates",
                condition=Q(state="pending", escalate_at__isnull=False),
            ),
            # a grant's page: what it let through
            models.Index(fields=("grant", "-created_at"), name="approval_of_grant", condition=Q(grant__isnull=False)),
            # "Last decision 14:02 by …"
            models.Index(
                fields=("tenant", "-decided_at"), name="approval_decided", condition=Q(decided_at__isnull=False)
            ),
        )

    def __str__(self) -> str:
        return f"{self.verb} {self.target}"


class Decision(models.Model):
    """One person's answer to an approval, append-only (a trigger refuses change).

    `version` and `digest` are what the person saw; `roles` what they held at that moment; `source` the door they used.
    `edit` changes the arguments where somebody else must then agree; `condition` is what an agreement is tied to.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    approval = models.ForeignKey(Approval, models.PROTECT, related_name="decisions", db_index=False)
    verdict = models.CharField(max_length=8)
    actor = models.CharField(max_length=200)
    actor_name = models.CharField(max_length=200)
    source = models.CharField(max_length=10)
    roles = JSONTextField()
    version = models.IntegerField()
    digest = DigestField(max_length=32)
    reason = models.CharField(max_length=2000, default="")
    condition = models.CharField(max_length=500, default="")
    decided_at = models.DateTimeField()

    class Meta:
        constraints = (
            one_of("decision", "verdict", VERDICTS),
            whole_digests("decision", "digest"),
            models.UniqueConstraint(
                fields=("approval", "actor", "verdict", "version"), name="decision_once_per_person"
            ),
            models.CheckConstraint(condition=Q(condition="") | Q(verdict="approve"), name="decision_condition_agrees"),
        )

    def __str__(self) -> str:
        return f"{self.verdict} by {self.actor_name}"
