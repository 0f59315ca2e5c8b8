"""T1, a model step made durable, and where a session goes when calls of its round have moved (DESIGN §3, §6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from ..contracts import PolicyDecision, ToolEffect
from ..models import Approval, Decision, EffectRecord, Grant, Question, ToolCall, ToolRound
from . import agreement, canonical, grants, ids, judgement, limits, questions, repetition, results, reviewed
from .endings import OpenRound
from .judgement import JudgedCall
from .lease import Lease
from .requests import new_approval
from .reviewed import Binding
from .routing import add_message, place_session, route
from .states import CLOSED_CALL
from .transitions import Change, transition


@dataclass(frozen=True, slots=True)
class Recorded:
    """What T1 left: the round, if there are calls, and whether the holder goes on with the session."""

    work: OpenRound | None
    goes_on: bool


def record_step(
    lease: Lease, body: Any, said: dict[str, Any], judged: Sequence[JudgedCall], most_waiting: int | None = None
) -> Recorded:
    """T1: transcript, round, calls, decisions, effects, approvals, questions and events of one model response, at once.

    No calls: the session is completed. Every call blocked: their results are in the transcript and the model goes on. A
    gate: the session is interrupted and the lease released. A stop: the response is dropped, nothing of it is kept.
    `said` is what the event says of the answer: which model gave it, and its usage. `most_waiting` is how many requests
    of this agent may wait for people at once; a call beyond that is blocked, and nobody is asked.
    """
    with transition(lease.session, fence=lease.fence) as change:
        session = change.session
        if session.state == "interrupting":
            place_session(change, set())
            return Recorded(None, goes_on=False)
        change.set(steps=session.steps + 1, stalls=0, model_failures=0)
        add_message(change, "model", body)
        change.event("model.completed", step=session.steps, calls=len(judged), **said)
        if not judged:
            change.session_to("completed")
            change.event("session.completed", steps=session.steps)
            return Recorded(None, goes_on=False)
        work = _add_round(change, judged, most_waiting)
        if work.round.state != "settled":
            route(change, work)
        return Recorded(work, session.state == "running")


def _add_round(change: Change, judged: Sequence[JudgedCall], most_waiting: int | None) -> OpenRound:
    session = change.session
    row = ToolRound(
        id=ids.new_id(),
        tenant_id=session.tenant_id,
        session=session,
        position=change.next("rounds"),
        state="executing",
        created_at=change.now,
    )
    bindings = reviewed.bind(change, row.position, judged)
    decided = zip(judged, bindings, strict=True)
    work = OpenRound(row, [_new_call(change, row, n, call, bound) for n, (call, bound) in enumerate(decided)])
    let_through = _judge_repeats(change, list(zip(work.calls, judged, strict=True)))
    beyond, most = limits.without_room(change, work.calls, most_waiting)
    for call in beyond:
        _block(call, "limit_reached", limits.no_room(session.agent, most))
    asked: list[Question] = []
    decisions: list[Decision] = []
    for call, verdict, bound in zip(work.calls, judged, bindings, strict=True):
        if call.state == "blocked":
            change.event("tool.call.blocked", call=call, reason=call.reason, why=(call.result or {}).get("reason", ""))
            continue
        if call.state == "completed":
            change.event("tool.call.completed", call=call, status="completed", replayed=True, of=str(call.repeats_id))
            continue
        if call.effect_class != ToolEffect.NONE:
            work.effects[call.id] = _new_effect(change, call)
        if call.state == "awaiting_approval":
            work.approvals[call.id] = _new_approval(change, call, verdict, bound)
        if call.state == "awaiting_answer" and verdict.ask is not None:
            asked.append(questions.new_question(change, call, verdict.ask))
        if call.id in let_through:
            approval = grants.approve(change, call, verdict, let_through[call.id])
            assert approval.decided_by is not None
            work.approvals[call.id] = approval
            decisions.append(approval.decided_by)
    states = {call.state for call in work.calls}
    if states & {"awaiting_approval", "awaiting_answer"}:
        row.state = "waiting"
    elif states <= set(CLOSED_CALL):
        row.state, row.settled_at = "settled", change.now
    change.add(row)
    change.add(*work.calls)
    change.add(*work.effects.values())
    change.add(*work.approvals.values())
    change.add(*decisions)
    change.add(*asked)
    if row.state == "settled":
        work.results = results.results_message(work.calls, change.now)
        add_message(change, "tools", work.results)
    return work


def _new_call(change: Change, row: ToolRound, position: int, judged: JudgedCall, bound: Binding | None) -> ToolCall:
    session, tool = change.session, judged.tool
    name = tool.spec.name if tool else canonical.bounded(canonical.storable_key(judged.proposed.tool), 100)
    version = tool.spec.version if tool else ""
    target = judgement.target_of(tool, judged.arguments)
    proposal = bound.proposal if bound else None
    if proposal is not None:
        operation = proposal.action_id
    else:
        operation = ids.operation_id(session.tenant_id, session.id, row.position, judged.proposed.call_id)
    action, intent = judgement.action_digests(
        session.tenant_id,
        name,
        version,
        judged.effect.value,
        judged.arguments,
        target,
        operation,
        judgement.identifying(tool, judged.arguments, reviewed=proposal is not None),
    )
    call = ToolCall(
        id=ids.new_id(),
        tenant_id=session.tenant_id,
        session=session,
        round=row,
        position=position,
        call_id=judged.proposed.call_id,
        tool=name,
        tool_version=version,
        schema_digest=judgement.schema_digest(tool),
        effect_class=judged.effect.value,
        verb=(tool.spec.verb if tool else "") or f"Run {name}",
        target=target,
        arguments=judged.arguments,
        action_digest=action,
        intent_digest=intent,
        operation_id=operation,
        decision=judged.decision.value,
        decision_reason=results.clean_text(judged.reason, 500),
        policy=judged.policy.name[:100],
        policy_version=judged.policy.version[:40],
        policy_digest=judgement.policy_digest(judged.policy),
        proposal=proposal,
        created_at=change.now,
    )
    if judged.problem or judged.decision is PolicyDecision.DENY:
        _block(call, "invalid" if judged.problem else "policy", judged.problem or judged.reason or "Not allowed.")
    elif bound and bound.reason:
        _block(call, bound.reason, bound.why)
    elif bound and bound.repeats:
        call.state, call.repeats, call.finished_at = "completed", bound.repeats, change.now
        call.result = reviewed.repeated(bound.repeats)
    elif judged.ask is not None:
        call.state = "awaiting_answer"
    else:
        call.state = "prepared" if judged.decision is PolicyDecision.ALLOW else "awaiting_approval"
    return call


def _judge_repeats(change: Change, judged: Sequence[tuple[ToolCall, JudgedCall]]) -> dict[UUID, Grant]:
    """What was denied is not asked again; what equals an uncertain EXTERNAL action waits until that one is settled.

    Of the rest that asks for a person, some may pass under standing grants: by call, the grant whose use was counted.
    """
    grave = [c for c, _ in judged if c.state == "awaiting_approval" or (c.state == "prepared" and _is_external(c))]
    asking = [(call, verdict) for call, verdict in judged if grants.may_pass(call, verdict)]
    found = repetition.repeats_of(change, grave, {call.tool for call, _ in asking})
    for call in grave:
        denied, uncertain = found.denied.get(call.action_digest), found.uncertain.get(call.action_digest)
        if denied is not None:
            _block(call, "denied_before", repetition.denied_before(denied))
        elif uncertain is not None and _is_external(call):
            call.held_by_id = uncertain.effect
            call.state, call.decision = "awaiting_approval", PolicyDecision.REQUIRE_APPROVAL.value
    still = [(call, verdict) for call, verdict in asking if grants.may_pass(call, verdict)]
    return grants.use(change, still) if found.grants and still else {}


def _is_external(call: ToolCall) -> bool:
    return call.effect_class == ToolEffect.EXTERNAL


def _block(call: ToolCall, reason: str, why: str) -> None:
    call.state, call.reason, call.finished_at = "blocked", reason, call.created_at
    call.result = results.call_result("blocked", executed=False, reason=why)


def _new_effect(change: Change, call: ToolCall) -> EffectRecord:
    return EffectRecord(
        id=ids.new_id(),
        tenant_id=call.tenant_id,
        session_id=call.session_id,
        call=call,
        operation_id=call.operation_id,
        idempotency_key=ids.new_key(),
        tool=call.tool,
        target=call.target,
        effect_class=call.effect_class,
        action_digest=call.action_digest,
        intent_digest=call.intent_digest,
        state="authorized" if call.state == "prepared" else "proposed",
        created_at=change.now,
    )


def _new_approval(change: Change, call: ToolCall, judged: JudgedCall, bound: Binding | None) -> Approval:
    """What a person is asked. It waits no longer than the proposal that the call is bound to is open."""
    expires_at = change.now + timedelta(seconds=judged.expires_in)
    if bound and bound.proposal:
        expires_at = min(expires_at, bound.proposal.expires_at)
    told: dict[str, Any] = {"action_id": call.operation_id} if call.proposal_id else {}
    if call.held_by_id:
        told["held_by"] = str(call.held_by_id)
    return new_approval(
        change,
        call,
        reason=call.decision_reason,
        expires_at=expires_at,
        four_eyes=judged.four_eyes,
        editable=judged.editable,
        asked=agreement.asked_of(change, judged.agreement),
        **told,
    )
