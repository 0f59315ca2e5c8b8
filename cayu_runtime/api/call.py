from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..core.states import APPROVAL, CALL
from ..errors import NotFound
from ..http.documented import Hex, documented
from ..http.view import ApiView
from ..models import Approval, ToolCall
from ..selectors.call import find_call
from .approval import DecisionShown

FOR_PEOPLE = ("target", "arguments", "proposed_arguments", "approvals")


class ApprovalShown(serializers.ModelSerializer[Approval]):
    """What is, or was, wanted for a call. A decision names its `version` and `digest`."""

    state = serializers.ChoiceField(choices=APPROVAL.names)
    digest = Hex(source="intent_digest")
    decision = DecisionShown(source="decided_by", allow_null=True)

    class Meta:
        model = Approval
        fields = ("id", "state", "version", "digest", "editable", "reason", "created_at", "expires_at", "decision")
        read_only_fields = fields


class CallShown(serializers.ModelSerializer[ToolCall]):
    """One call of one tool. Its arguments, and what people decided, are shown to people alone."""

    session_id = serializers.CharField(source="session.session_id")
    round = serializers.IntegerField(source="round.position")
    state = serializers.ChoiceField(choices=CALL.names)
    effect = serializers.SerializerMethodField()
    action_id = serializers.SerializerMethodField()
    result = serializers.JSONField(allow_null=True)
    arguments = serializers.JSONField(required=False)
    proposed_arguments = serializers.JSONField(required=False, allow_null=True)
    approvals = ApprovalShown(many=True, required=False)
    target = serializers.CharField(required=False)

    class Meta:
        model = ToolCall
        fields = (
            "id", "session_id", "round", "position", "call_id", "tool", "tool_version", "effect_class", "verb",
            "operation_id", "decision", "decision_reason", "policy", "state", "reason", "version", "runs", "lost",
            "effect", "action_id", "result", "created_at", "dispatched_at", "finished_at", *FOR_PEOPLE,
        )  # fmt: skip
        read_only_fields = tuple(name for name in fields if name not in FOR_PEOPLE)

    def get_effect(self, call: ToolCall) -> UUID | None:
        effect = getattr(call, "effect", None)
        return effect.id if effect is not None else None

    def get_action_id(self, call: ToolCall) -> str | None:
        return call.proposal.action_id if call.proposal else None

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        if self.context.get("for_agents"):
            for name in FOR_PEOPLE:
                del fields[name]
        return fields


class CallDetail(ApiView):
    @documented("read_call", "Read a call", {200: CallShown}, "not_found")
    def get(self, request: Request, call_id: UUID) -> Response:
        call = find_call(self.caller.tenant, call_id)
        if call is None:
            raise NotFound("There is no such call.")
        return Response(CallShown(call, context={"for_agents": not self.caller.is_person}).data)
