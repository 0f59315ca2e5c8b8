from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..core.states import BLOCKERS, INTERRUPTIONS, PLAN, REPAIRS, SESSION
from ..http.body import MAX_REASON, Strict, Text
from ..http.documented import documented
from ..http.view import ApiView
from ..services.recovery import execute_recovery, plan_recovery
from .session import found_session


class CallNamed(serializers.Serializer[Any]):
    call = serializers.UUIDField(allow_null=True)
    call_id = serializers.CharField(allow_null=True)
    call_state = serializers.CharField(allow_null=True)
    tool = serializers.CharField(allow_null=True)


class BlockerShown(CallNamed):
    """What is in the way, since when, and what is known of it; no argument of any call."""

    kind = serializers.ChoiceField(choices=BLOCKERS)
    since = serializers.DateTimeField()
    about = serializers.UUIDField(allow_null=True, help_text="The approval's, the question's or the effect's id.")
    evidence = serializers.JSONField()


class RepairShown(CallNamed):
    """One thing that executing the plan does. "" for a state: it is not changed."""

    kind = serializers.ChoiceField(choices=tuple(REPAIRS))
    effect = serializers.UUIDField(allow_null=True)
    call_becomes = serializers.CharField(allow_blank=True)
    effect_becomes = serializers.CharField(allow_blank=True)


class PlanShown(serializers.Serializer[Any]):
    """What stands in the way of a session, and what can be repaired without evidence and without running anything."""

    session_id = serializers.CharField()
    state = serializers.ChoiceField(choices=SESSION.names)
    interruption = serializers.ChoiceField(choices=INTERRUPTIONS, allow_null=True)
    status = serializers.ChoiceField(choices=tuple(PLAN))
    says = serializers.CharField(help_text="What that means, and what a person can do.")
    blockers = BlockerShown(many=True)
    repairs = RepairShown(many=True)
    digest = serializers.CharField(help_text="Names exactly this plan. Send it to execute it.")


class Executed(serializers.Serializer[Any]):
    """The record of a plan that was executed. `replay`: you had executed it before."""

    session_id = serializers.CharField()
    state = serializers.ChoiceField(choices=SESSION.names, help_text="The session's, as it is now.")
    digest = serializers.CharField()
    status = serializers.ChoiceField(choices=tuple(PLAN), help_text="What the plan said.")
    made = serializers.DictField(child=serializers.IntegerField(), help_text="How many repairs of each kind.")
    by_name = serializers.CharField()
    reason = serializers.CharField()
    at = serializers.DateTimeField()
    seq = serializers.IntegerField(help_text="Of its event in the session's log.")
    replay = serializers.BooleanField()


class Recover(Strict):
    digest = Text(min_length=64, max_length=64, help_text="The plan's digest, 64 hexadecimal digits.")
    reason = Text(max_length=MAX_REASON, help_text="Why. It stays on record.")


class RecoveryPlan(ApiView):
    @documented("read_recovery_plan", "Read what is in a session's way", {200: PlanShown}, "not_found")
    def get(self, request: Request, session_id: str) -> Response:
        plan = plan_recovery(self.caller.tenant, session_id)
        return Response(PlanShown({**plan.facts(), "says": plan.says, "digest": plan.digest}).data)


class SessionRecover(ApiView):
    @documented(
        "recover_session", "Execute exactly the plan that was read",
        {200: Executed},
        "not_found", "stale_plan", "nothing_to_repair", "already_decided", "lost_race",
        takes=Recover,
    )  # fmt: skip
    def post(self, request: Request, session_id: str) -> Response:
        found_session(self, session_id)
        body = self.body(Recover)
        executed = execute_recovery(self.caller.tenant, self.caller.actor, session_id, **body)
        session = {"session_id": executed.session.session_id, "state": executed.session.state}
        told = ("digest", "status", "made", "by_name", "reason", "at", "seq", "replay")
        return Response(Executed({**session, **{name: getattr(executed, name) for name in told}}).data)
