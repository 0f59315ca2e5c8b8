from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..contracts import PolicyDecision, ToolEffect
from ..core.ids import new_id
from ..core.states import BLOCKED_REASONS, CALL, CLOSED_CALL, OPEN_CALL
from .fields import DigestField, JSONTextField, StateField, one_of, set_exactly_in, set_whenever_in, whole_digests
from .round import ToolRound
from .session import Session
from .tenant import Tenant


class ToolCall(models.Model):
    """One call of one tool with its effective arguments, its policy decision, its state and its one result.

    `arguments` is what was digested and what the tool gets. `version` counts their content: an edit raises it.
    `reason` says why a blocked, failed or unknown call is so. `runs` counts starts of the tool, `lost` the workers
    that were lost with it. With a `proposal` it is a reviewed action: its operation is the proposal's action, and its
    arguments are never edited. `proposed_arguments` is what the agent asked for, if a person changed it (`edited_by`).
    `held_by` is the uncertain effect of an equal action. `repeats` names the effect whose recorded outcome it was
    answered with.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session = models.ForeignKey(Session, models.PROTECT, db_index=False)
    round = models.ForeignKey(ToolRound, models.PROTECT, db_index=False, related_name="calls")
    position = models.SmallIntegerField()
    call_id = models.CharField(max_length=200)
    tool = models.CharField(max_length=100)
    tool_version = models.CharField(max_length=40)
    schema_digest = DigestField(max_length=32)
    effect_class = models.CharField(max_length=12)
    verb = models.CharField(max_length=120)
    target = models.CharField(max_length=200, default="")
    arguments = JSONTextField()
    version = models.IntegerField(default=1)
    action_digest = DigestField(max_length=32)
    intent_digest = DigestField(max_length=32)
    operation_id = models.CharField(max_length=200)
    decision = models.CharField(max_length=20)
    decision_reason = models.CharField(max_length=500, default="")
    policy = models.CharField(max_length=100)
    policy_version = models.CharField(max_length=40)
    policy_digest = DigestField(max_length=32)
    state = StateField(max_length=20)
    reason = models.CharField(max_length=60, default="")
    held_by = models.ForeignKey("EffectRecord", models.PROTECT, null=True, related_name="holds", db_index=False)
    repeats = models.ForeignKey("EffectRecord", models.PROTECT, null=True, related_name="repeated_by", db_index=False)
    proposal = models.ForeignKey("Proposal", models.PROTECT, null=True, related_name="calls", db_index=False)
    proposed_arguments = JSONTextField(null=True)
    conditions = JSONTextField(null=True)
    edited_by = models.CharField(max_length=200, default="")
    result = JSONTextField(null=True)
    runs = models.SmallIntegerField(default=0)
    lost = models.SmallIntegerField(default=0)
    created_at = models.DateTimeField()
    dispatched_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("round", "call_id"), name="call_id_unique_in_round"),
            models.UniqueConstraint(fields=("round", "position"), name="call_position_unique"),
            # a proposal permits one action; two calls can't both wait to use it
            models.UniqueConstraint(
                fields=("proposal",),
                name="call_one_open_of_proposal",
                condition=Q(proposal__isnull=False, state__in=OPEN_CALL),
            ),
            one_of("call", "state", CALL.names),
            whole_digests("call", "schema_digest", "action_digest", "intent_digest", "policy_digest"),
            one_of("call", "effect_class", tuple(e.value for e in ToolEffect)),
            one_of("call", "decision", tuple(d.value for d in PolicyDecision)),
            set_exactly_in("call", "result", "state", CLOSED_CALL),
            set_exactly_in("call", "finished_at", "state", CLOSED_CALL),
            set_whenever_in("call", "dispatched_at", "state", ("dispatched",)),
            models.CheckConstraint(
                condition=~Q(state="blocked") | Q(reason__in=BLOCKED_REASONS), name="call_blocked_says_why"
            ),
            models.CheckConstraint(
                condition=~Q(state="outcome_unknown") | ~Q(effect_class=ToolEffect.NONE.value),
                name="call_none_is_never_unknown",
            ),
            models.CheckConstraint(
                condition=Q(repeats__isnull=True) | Q(state="completed", runs=0), name="call_that_repeats_never_ran"
            ),
            models.CheckConstraint(condition=Q(version__gte=1, runs__gte=0, lost__gte=0), name="call_counters_sane"),
            models.CheckConstraint(
                condition=Q(version__lte=1, proposed_arguments__isnull=True, edited_by="")
                | Q(version__gt=1, proposed_arguments__isnull=False, proposal__isnull=True) & ~Q(edited_by=""),
                name="call_edit_keeps_what_was_proposed",
            ),
        )
        indexes = (
            # T1: was an equal action denied in this session?
            models.Index(fields=("session",), name="call_denied", condition=Q(state="denied")),
            models.Index(fields=("held_by",), name="call_held", condition=Q(held_by__isnull=False)),
            models.Index(fields=("repeats",), name="call_repeats", condition=Q(repeats__isnull=False)),
        )

    def __str__(self) -> str:
        return f"{self.tool}({self.target})"
