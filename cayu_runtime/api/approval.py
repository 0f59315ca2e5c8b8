from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..contracts.agreement import MAX_CONDITION
from ..core.states import APPROVAL
from ..errors import NotFound
from ..http.body import MAX_REASON, Object, Strict, Text, Whole
from ..http.cursor import cursor_after, place_of
from ..http.documented import CursorQuery, Hex, documented
from ..http.view import ApiView
from ..models import Approval, Decision, EffectRecord, Question, Session
from ..models.approval import VERDICTS
from ..selectors.approval import PendingRow, find_approval, pending
from ..selectors.effect import uncertain
from ..selectors.question import open_questions
from ..services.approval import VERDICTS as DECISIONS
from ..services.approval import decide_approval, revoke_approval
from .session import SESSION_ID, found_session

APPROVALS, QUESTIONS, EFFECTS = "pending_approval", "pending_user_input", "pending_tool_effect"
MAX_ARGUMENTS = 16 * 1024


class AgreementShown(serializers.Serializer[Any]):
    """Who must agree: the stages that the policy asks for, and where it stands. null where one approver is enough."""

    stages = serializers.ListField(
        child=serializers.ListField(child=serializers.IntegerField()), help_text="Each as [people, tier]."
    )
    stage = serializers.IntegerField(help_text="The stage that it is in, from 0.")
    needed = serializers.IntegerField(help_text="How many more people of `tier` or above must agree in this stage.")
    tier = serializers.IntegerField()
    escalates_at = serializers.DateTimeField(allow_null=True, help_text="When a tier more is asked for.")
    conditions = serializers.BooleanField(help_text="Whether an agreement may be tied to a condition.")


class PendingAction(serializers.Serializer[Any]):
    """One thing that waits. Agent clients are told that it does; people also what it is about, and how to decide it."""

    kind = serializers.ChoiceField(choices=(APPROVALS, QUESTIONS, EFFECTS))
    id = serializers.UUIDField(help_text="The approval's, the question's or the effect's.")
    session_id = serializers.CharField()
    call = serializers.UUIDField()
    tool = serializers.CharField()
    effect_class = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    verb = serializers.CharField(required=False)
    target = serializers.CharField(required=False)
    requester_name = serializers.CharField(required=False)
    editable = serializers.BooleanField(required=False)
    agreement = AgreementShown(required=False, allow_null=True)
    version = serializers.IntegerField(required=False)
    digest = serializers.CharField(required=False)
    text = serializers.CharField(required=False, help_text="What the agent asks.")
    choices = serializers.JSONField(required=False, allow_null=True)
    arguments = serializers.JSONField(
        required=False, allow_null=True, help_text=f"null if longer than {MAX_ARGUMENTS}: read the call."
    )


class Issue(serializers.Serializer[Any]):
    """A row that waits and can't be read. An operator must look at it."""

    id = serializers.UUIDField()
    session_id = serializers.CharField()
    problem = serializers.CharField()


class PendingPage(serializers.Serializer[Any]):
    results = PendingAction(many=True)
    issues = Issue(many=True)
    next = serializers.CharField(allow_null=True, help_text="Cursor of the next page; null on the last one.")


class PendingQuery(CursorQuery):
    kind = serializers.ChoiceField(choices=(APPROVALS, QUESTIONS, EFFECTS), required=False, default=APPROVALS)
    session_id = serializers.RegexField(SESSION_ID, required=False, default="", max_length=80)


class DecisionShown(serializers.ModelSerializer[Decision]):
    """One person's answer: who, what they saw, and why."""

    verdict = serializers.ChoiceField(choices=VERDICTS)
    digest = Hex()

    class Meta:
        model = Decision
        fields = ("id", "verdict", "actor", "actor_name", "source", "version", "digest", "reason", "condition",
                  "decided_at")  # fmt: skip
        read_only_fields = fields


class Decided(serializers.Serializer[Any]):
    """The recorded decision, and what has become of the approval: still pending while others must agree too. `replay`:
    it had been recorded before.
    """

    approval = serializers.UUIDField()
    state = serializers.ChoiceField(choices=APPROVAL.names)
    call = serializers.UUIDField()
    session_id = serializers.CharField()
    decision = DecisionShown()
    replay = serializers.BooleanField()


class Seen(Strict):
    version = Whole(min_value=1, max_value=2**31 - 1)
    digest = Text(max_length=64, min_length=64, help_text="The approval's digest, 64 hexadecimal digits.")


class Decide(Seen):
    decision = serializers.ChoiceField(choices=DECISIONS)
    reason = Text(required=False, default="", allow_blank=True, max_length=MAX_REASON)
    arguments = Object(
        required=False,
        help_text="Approve these in place of the shown ones, where the policy allows. Under four eyes this "
        "changes them, and somebody else must approve.",
    )
    condition = Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=MAX_CONDITION,
        help_text="What the agreement is tied to, where the policy takes one: tool and model are given it.",
    )


class Revoke(Seen):
    reason = Text(max_length=MAX_REASON)


class PendingActionList(ApiView):
    @documented("list_pending_actions", "List what waits", {200: PendingPage}, "not_found", query=PendingQuery)
    def get(self, request: Request) -> Response:
        query = self.query(PendingQuery)
        session = found_session(self, query["session_id"]) if query["session_id"] else None
        results, issues, following = READERS[query["kind"]](self, session, query)
        return Response({"results": results, "issues": issues, "next": following})


Page = tuple[list[dict[str, Any]], list[dict[str, Any]], str | None]


def _approvals(view: ApiView, session: Session | None, query: dict[str, Any]) -> Page:
    limit = query["limit"]
    rows = pending(view.caller.tenant, session, place_of(query["cursor"]), limit + 1)
    shown = _for_person if view.caller.is_person else _for_agent
    following = cursor_after(rows[limit - 1].expires_at, rows[limit - 1].id) if len(rows) > limit else None
    results, issues = [], []
    for row in rows[:limit]:
        try:
            results.append(shown(row))
        except ValueError:
            problem = "Its arguments can't be read, so nobody can decide it. An operator must look at the call."
            issues.append({"id": row.id, "session_id": row.session_id, "problem": problem})
    return results, issues, following


def _for_agent(row: PendingRow) -> dict[str, Any]:
    json.loads(row.arguments)
    return {
        "kind": APPROVALS,
        "id": row.id,
        "session_id": row.session_id,
        "call": row.call,
        "tool": row.tool,
        "effect_class": row.effect_class,
        "since": row.created_at,
        "expires_at": row.expires_at,
    }


def _for_person(row: PendingRow) -> dict[str, Any]:
    arguments = json.loads(row.arguments)
    return {
        **_for_agent(row),
        "verb": row.verb,
        "target": row.target,
        "requester_name": row.requester_name,
        "editable": row.editable,
        "agreement": _agreement(row),
        "version": row.version,
        "digest": row.digest.hex(),
        "arguments": arguments if len(row.arguments) <= MAX_ARGUMENTS else None,
    }


def _agreement(row: PendingRow) -> dict[str, Any] | None:
    if row.agreement is None:
        return None
    asked = json.loads(row.agreement) if isinstance(row.agreement, str) else row.agreement
    return {
        "stages": asked["stages"],
        "stage": row.stage,
        "needed": row.needed,
        "tier": row.tier,
        "escalates_at": row.escalate_at,
        "conditions": asked["conditions"],
    }


def _questions(view: ApiView, session: Session | None, query: dict[str, Any]) -> Page:
    limit = query["limit"]
    rows = open_questions(view.caller.tenant, session, place_of(query["cursor"]), limit + 1)
    following = cursor_after(rows[limit - 1].expires_at, rows[limit - 1].id) if len(rows) > limit else None
    return [_question(row, is_person=view.caller.is_person) for row in rows[:limit]], [], following


def _question(row: Question, *, is_person: bool) -> dict[str, Any]:
    shown = {
        "kind": QUESTIONS,
        "id": row.id,
        "session_id": row.session.session_id,
        "call": row.call_id,
        "tool": row.call.tool,
        "effect_class": row.call.effect_class,
        "since": row.created_at,
        "expires_at": row.expires_at,
    }
    asked = {"requester_name": row.requester_name, "text": row.text, "choices": row.choices, "digest": row.digest.hex()}
    return {**shown, **asked} if is_person else shown


def _effects(view: ApiView, session: Session | None, query: dict[str, Any]) -> Page:
    limit = query["limit"]
    rows = uncertain(view.caller.tenant, place_of(query["cursor"]), limit + 1, session)
    last = rows[limit - 1] if len(rows) > limit else None
    following = cursor_after(last.unknown_since, last.id) if last and last.unknown_since else None
    return [_effect(row, is_person=view.caller.is_person) for row in rows[:limit]], [], following


def _effect(row: EffectRecord, *, is_person: bool) -> dict[str, Any]:
    shown = {
        "kind": EFFECTS,
        "id": row.id,
        "session_id": row.session.session_id,
        "call": row.call_id,
        "tool": row.tool,
        "effect_class": row.effect_class,
        "since": row.unknown_since,
        "expires_at": None,
    }
    return {**shown, "verb": row.call.verb, "target": row.target} if is_person else shown


READERS = {APPROVALS: _approvals, QUESTIONS: _questions, EFFECTS: _effects}


class ApprovalDecide(ApiView):
    @documented(
        "decide_approval", "Approve or deny exactly what was seen",
        {200: Decided},
        "own_request", "step_up_required", "not_found", "already_decided", "stale_version", "digest_mismatch",
        "approval_expired", "proposal_conflict", "stale_tool", "held", "conflict", "lost_race",
        takes=Decide,
    )  # fmt: skip
    def post(self, request: Request, approval_id: UUID) -> Response:
        found = _found(self, approval_id)
        body = self.body(Decide)
        verdict = body.pop("decision")
        return _answer(self, found, lambda **who: decide_approval(**who, verdict=verdict, **body))


class ApprovalRevoke(ApiView):
    @documented(
        "revoke_approval", "Take an approval back before it is dispatched",
        {200: Decided},
        "own_request", "not_found", "already_decided", "stale_version", "digest_mismatch", "approval_expired",
        "conflict", "lost_race",
        takes=Revoke,
    )  # fmt: skip
    def post(self, request: Request, approval_id: UUID) -> Response:
        found = _found(self, approval_id)
        body = self.body(Revoke)
        return _answer(self, found, lambda **who: revoke_approval(**who, **body))


def _found(view: ApiView, approval_id: UUID) -> Approval:
    found = find_approval(view.caller.tenant, approval_id)
    if found is None:
        raise NotFound("There is no such approval.")
    return found


def _answer(view: ApiView, found: Approval, record: Callable[..., Any]) -> Response:
    decided = record(tenant=view.caller.tenant, actor=view.caller.actor, approval_id=found.id)
    shown = {
        "approval": found.id,
        "state": decided.approval.state,
        "call": found.call_id,
        "session_id": found.session.session_id,
        "decision": decided.decision,
        "replay": decided.replay,
    }
    return Response(Decided(shown).data)
