from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..contracts import ToolEffect
from ..core.ids import new_id
from ..core.states import CLOSED_EFFECT, EFFECT
from .call import ToolCall
from .fields import (
    DigestField,
    JSONTextField,
    StateField,
    not_set_in,
    one_of,
    set_exactly_in,
    set_whenever_in,
    whole_digests,
)
from .session import Session
from .tenant import Tenant

CLASSES = (ToolEffect.IDEMPOTENT.value, ToolEffect.EXTERNAL.value)
VERIFICATIONS = ("passed", "failed", "inconclusive")


class EffectRecord(models.Model):
    """The act-once ledger entry of an IDEMPOTENT or EXTERNAL call. Its id is the public one; the key stays inside.

    `dispatch_id` is written before the tool runs and names the latest dispatch. `receipt` is terminal evidence;
    `verification` a fresh read of the downstream state, never the receipt itself. `revision` grows with each change.
    `quarantined_at`: the row came from a backup, and a dispatch since then may be missing in it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session = models.ForeignKey(Session, models.PROTECT)
    call = models.OneToOneField(ToolCall, models.PROTECT, related_name="effect")
    operation_id = models.CharField(max_length=200)
    idempotency_key = models.CharField(max_length=64)
    tool = models.CharField(max_length=100)
    target = models.CharField(max_length=200, default="")
    effect_class = models.CharField(max_length=12)
    action_digest = DigestField(max_length=32)
    intent_digest = DigestField(max_length=32)
    state = StateField(max_length=16)
    revision = models.IntegerField(default=1)
    linked_to = models.ForeignKey("self", models.PROTECT, null=True, related_name="linked", db_index=False)
    dispatch_id = models.UUIDField(null=True)
    dispatches = models.SmallIntegerField(default=0)
    dispatched_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)
    dispatch_fence = models.BigIntegerField(null=True)
    dispatched_by = models.CharField(max_length=100, default="")
    receipt = JSONTextField(null=True)
    receipt_digest = DigestField(max_length=32, null=True)
    verification = models.CharField(max_length=12, null=True)
    verification_evidence = JSONTextField(null=True)
    failure_evidence = JSONTextField(null=True)
    unknown_since = models.DateTimeField(null=True)
    quarantined_at = models.DateTimeField(null=True)
    abandoned_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "operation_id"), name="effect_operation_unique_in_tenant"),
            models.UniqueConstraint(fields=("dispatch_id",), name="effect_dispatch_unique"),
            one_of("effect", "state", EFFECT.names),
            whole_digests("effect", "action_digest", "intent_digest", "receipt_digest"),
            one_of("effect", "effect_class", CLASSES),
            set_exactly_in("effect", "closed_at", "state", CLOSED_EFFECT),
            set_whenever_in("effect", "receipt", "state", ("receipted", "completed")),
            not_set_in("effect", "receipt", "state", ("proposed", "intent_recorded", "abandoned")),
            set_whenever_in("effect", "dispatch_id", "state", ("intent_recorded",)),
            not_set_in("effect", "dispatch_id", "state", ("proposed", "abandoned")),
            set_whenever_in("effect", "unknown_since", "state", ("outcome_unknown", "manual_review")),
            # only a restored backup explains an effect that has come so far without a dispatch that is on record
            models.CheckConstraint(
                condition=Q(state__in=("proposed", "authorized", "abandoned"))
                | Q(dispatch_id__isnull=False)
                | Q(quarantined_at__isnull=False),
                name="effect_unknown_was_dispatched",
            ),
            # what may have been dispatched after the backup was not "never dispatched"
            not_set_in("effect", "quarantined_at", "state", ("proposed", "abandoned")),
            models.CheckConstraint(
                condition=(
                    Q(
                        dispatch_id__isnull=True,
                        dispatched_at__isnull=True,
                        deadline__isnull=True,
                        dispatch_fence__isnull=True,
                        dispatched_by="",
                        dispatches=0,
                    )
                    | Q(
                        dispatch_id__isnull=False,
                        dispatched_at__isnull=False,
                        deadline__isnull=False,
                        dispatch_fence__isnull=False,
                        dispatches__gte=1,
                    )
                ),
                name="effect_dispatch_is_whole",
            ),
            models.CheckConstraint(
                condition=Q(receipt__isnull=True, receipt_digest__isnull=True)
                | Q(receipt__isnull=False, receipt_digest__isnull=False),
                name="effect_receipt_has_digest",
            ),
            models.CheckConstraint(
                condition=Q(verification__isnull=True) | Q(verification__in=VERIFICATIONS, receipt__isnull=False),
                name="effect_verification_of_receipt",
            ),
            models.CheckConstraint(condition=~Q(linked_to=models.F("id")), name="effect_not_linked_to_itself"),
            models.CheckConstraint(condition=Q(revision__gte=1), name="effect_revision_positive"),
        )
        indexes = (
            # the reconciliation queue, longest unknown first
            models.Index(
                fields=("tenant", "unknown_since", "id"),
                name="effect_uncertain",
                condition=Q(state__in=("outcome_unknown", "manual_review")),
            ),
            # T1: is an equal action still open?
            models.Index(
                fields=("tenant", "action_digest"), name="effect_open_action", condition=~Q(state__in=CLOSED_EFFECT)
            ),
            # quarantined ones that nobody knows the outcome of: what keeps dispatch closed
            models.Index(
                fields=("tenant", "id"),
                name="effect_quarantined",
                condition=Q(state__in=("outcome_unknown", "manual_review"), quarantined_at__isnull=False),
            ),
            models.Index(fields=("linked_to",), name="effect_linked", condition=Q(linked_to__isnull=False)),
        )

    def __str__(self) -> str:
        return f"{self.tool}({self.target}) {self.state}"
