from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..contracts import Finding
from ..contracts.reconciler import MAX_RECEIPT
from ..core.states import ATTEMPT, EFFECT
from ..errors import InvalidRequest, NotFound
from ..http.body import MAX_REASON, Identifier, Object, Strict, Text, Whole
from ..http.documented import Hex, documented
from ..http.view import ApiView
from ..models import Attempt, EffectRecord
from ..models.attempt import KINDS
from ..models.effect import VERIFICATIONS
from ..selectors.effect import UNCERTAIN, attempts_of, effect_of_call
from ..services.effect import Seen, look_up_effect, supply_receipt, ways_to_settle

LOOKUP, RECEIPT = "lookup", "receipt"
FOR_PEOPLE = ("reason", "evidence")


class AttemptShown(serializers.ModelSerializer[Attempt]):
    """Something that was tried on the effect, and what came of it. `admitted`: it has no answer, or had none yet.

    What people said and saw is shown to people alone.
    """

    kind = serializers.ChoiceField(choices=KINDS)
    state = serializers.ChoiceField(choices=ATTEMPT.names)
    dispatch_id = serializers.UUIDField(allow_null=True, help_text="The dispatch that it is, or is about.")
    reason = serializers.CharField(required=False)
    evidence = serializers.JSONField(required=False, allow_null=True)

    class Meta:
        model = Attempt
        fields = ("id", "kind", "state", "dispatch_id", "actor", "admitted_at", "closed_at", *FOR_PEOPLE)
        read_only_fields = tuple(name for name in fields if name not in FOR_PEOPLE)

    def get_fields(self) -> dict[str, Any]:
        return _without(super().get_fields(), self.context)


class WaysShown(serializers.Serializer[Any]):
    """How this effect may be settled now. Both are false where nothing is uncertain, or the tool has no reconciler."""

    lookup = serializers.BooleanField(help_text="The downstream can be asked by the operation's own key.")
    receipt = serializers.BooleanField(help_text="The tool's reconciler judges receipts.")


class EffectShown(serializers.ModelSerializer[EffectRecord]):
    """The act-once record of a call. `receipt` is the evidence that closed it; no receipt, no success.

    A reconciliation repeats `revision` and `dispatch_id` as they stand here.
    """

    session_id = serializers.CharField(source="session.session_id")
    call = serializers.UUIDField(source="call_id")
    tool_version = serializers.CharField(source="call.tool_version")
    state = serializers.ChoiceField(choices=EFFECT.names)
    intent_digest = Hex()
    dispatch_id = serializers.UUIDField(allow_null=True, help_text="The latest dispatch; null if there was none.")
    uncertain = serializers.SerializerMethodField(help_text="Nobody knows whether it happened: evidence is wanted.")
    ways = serializers.SerializerMethodField()
    receipt = serializers.JSONField(allow_null=True)
    failure_evidence = serializers.JSONField(allow_null=True)
    verification = serializers.ChoiceField(choices=VERIFICATIONS, allow_null=True)
    verification_evidence = serializers.JSONField(required=False, allow_null=True)
    attempts = serializers.SerializerMethodField()

    class Meta:
        model = EffectRecord
        fields = (
            "id", "session_id", "call", "operation_id", "intent_digest", "tool", "tool_version", "effect_class",
            "state", "revision", "dispatch_id", "dispatch_fence", "dispatches", "dispatched_at", "deadline",
            "uncertain", "ways", "receipt", "verification", "failure_evidence", "unknown_since", "quarantined_at",
            "abandoned_at", "created_at", "closed_at", "attempts", "verification_evidence",
        )  # fmt: skip
        read_only_fields = fields[:-1]

    def get_fields(self) -> dict[str, Any]:
        return _without(super().get_fields(), self.context)

    def get_uncertain(self, effect: EffectRecord) -> bool:
        return effect.state in UNCERTAIN

    @extend_schema_field(WaysShown)
    def get_ways(self, effect: EffectRecord) -> Any:
        ways = ways_to_settle(effect)
        uncertain = effect.state in UNCERTAIN
        return {LOOKUP: uncertain and ways.looks_up, RECEIPT: uncertain and ways.takes_receipts}

    @extend_schema_field(AttemptShown(many=True))
    def get_attempts(self, effect: EffectRecord) -> Any:
        return AttemptShown(attempts_of(effect), many=True, context=self.context).data


class ReconciliationShown(serializers.Serializer[Any]):
    """What was found, and the effect after it. `replay`: the same request had been answered before; nobody was asked
    again.
    """

    finding = serializers.ChoiceField(choices=[finding.value for finding in Finding])
    message = serializers.CharField(help_text="What the adapter said, for people.")
    attempt = serializers.UUIDField()
    replay = serializers.BooleanField()
    effect = EffectShown()


class Reconcile(Strict):
    kind = serializers.ChoiceField(choices=(LOOKUP, RECEIPT))
    revision = Whole(min_value=1, max_value=2**31 - 1, help_text="The effect's, as it was read.")
    dispatch_id = Identifier(allow_null=True, help_text="The effect's, as it was read; null if it had none.")
    receipt = Object(
        required=False,
        help_text=f"For a receipt, and only then: what the downstream gave, at most {MAX_RECEIPT} bytes.",
    )
    reason = Text(max_length=MAX_REASON, help_text="Why; it stays on record.")


class EffectDetail(ApiView):
    @documented(
        "read_effect", "Inspect a call's effect, also of a call that has ended", {200: EffectShown}, "not_found"
    )
    def get(self, request: Request, call_id: UUID) -> Response:
        context = {"for_agents": not self.caller.is_person}
        return Response(EffectShown(_found(self, call_id), context=context).data)


class EffectReconcile(ApiView):
    @documented(
        "reconcile_effect", "Settle an uncertain effect by a lookup or a receipt",
        {200: ReconciliationShown},
        "not_found", "stale_revision", "unfinished", "effect_conflict", "conflict", "lost_race",
        takes=Reconcile,
    )  # fmt: skip
    def post(self, request: Request, call_id: UUID) -> Response:
        tenant, actor = self.caller.tenant, self.caller.actor
        found = _found(self, call_id)
        body = self.body(Reconcile)
        seen, receipt, reason = Seen(body["revision"], body["dispatch_id"]), body.get("receipt"), body["reason"]
        if (body["kind"] == RECEIPT) != (receipt is not None):
            raise InvalidRequest("receipt: send it with kind 'receipt', and with no other kind.")
        if receipt is None:
            done = look_up_effect(tenant, actor, found.id, seen, reason=reason)
        else:
            done = supply_receipt(tenant, actor, found.id, seen, receipt, reason=reason)
        shown = {
            "finding": done.finding,
            "message": done.message,
            "attempt": done.attempt.id,
            "replay": done.replay,
            "effect": _found(self, call_id),
        }
        return Response(ReconciliationShown(shown).data)


def _without(fields: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    hidden = (*FOR_PEOPLE, "verification_evidence") if context.get("for_agents") else ()
    return {name: field for name, field in fields.items() if name not in hidden}


def _found(view: ApiView, call_id: UUID) -> EffectRecord:
    effect = effect_of_call(view.caller.tenant, call_id)
    if effect is None:
        raise NotFound("There is no such call, or it has no effect.")
    return effect
