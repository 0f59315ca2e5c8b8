from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..core.states import ATTEMPT, EFFECT
from ..errors import NotFound
from ..http.documented import documented
from ..http.view import ApiView
from ..models import Attempt, EffectRecord
from ..models.attempt import KINDS
from ..models.effect import VERIFICATIONS
from ..selectors.effect import attempts_of, effect_of_call


class AttemptShown(serializers.ModelSerializer[Attempt]):
    """Something that was tried on the effect, and what came of it."""

    kind = serializers.ChoiceField(choices=KINDS)
    state = serializers.ChoiceField(choices=ATTEMPT.names)
    evidence = serializers.JSONField(allow_null=True)

    class Meta:
        model = Attempt
        fields = ("id", "kind", "state", "actor", "reason", "evidence", "admitted_at", "closed_at")
        read_only_fields = fields


class EffectShown(serializers.ModelSerializer[EffectRecord]):
    """The act-once record of a call. `receipt` is the evidence that closed it; no receipt, no success."""

    session_id = serializers.CharField(source="session.session_id")
    call = serializers.UUIDField(source="call_id")
    state = serializers.ChoiceField(choices=EFFECT.names)
    receipt = serializers.JSONField(allow_null=True)
    failure_evidence = serializers.JSONField(allow_null=True)
    verification = serializers.ChoiceField(choices=VERIFICATIONS, allow_null=True)
    attempts = serializers.SerializerMethodField()

    class Meta:
        model = EffectRecord
        fields = (
            "id", "session_id", "call", "operation_id", "tool", "effect_class", "state", "revision", "dispatches",
            "dispatched_at", "deadline", "receipt", "verification", "failure_evidence", "unknown_since", "created_at",
            "closed_at", "attempts",
        )  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(AttemptShown(many=True))
    def get_attempts(self, effect: EffectRecord) -> Any:
        return AttemptShown(attempts_of(effect), many=True).data


class EffectDetail(ApiView):
    @documented("read_effect", "Read what is known of a call's effect", {200: EffectShown}, "not_found")
    def get(self, request: Request, call_id: UUID) -> Response:
        effect = effect_of_call(self.caller.tenant, call_id)
        if effect is None:
            raise NotFound("There is no such call, or it has no effect.")
        return Response(EffectShown(effect).data)
