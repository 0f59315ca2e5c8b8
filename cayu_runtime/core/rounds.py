"""T1, a model step made durable, and where a session goes when calls of its round have moved (DESIGN §3, §6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from ..contracts import Agent, PolicyDecision, ToolEffect
from ..models import Approval, EffectRecord, Message, Session, ToolCall, ToolRound
from . import canonical, ids, judgement, results
from .judgement import JudgedCall
from .lease import Lease
from .states import CLOSED_CALL
from .transitions import Change, transition


@dataclass(slots=True)
class OpenRound:
    """The open round of a leased session as its holder knows it. Effects and approvals are keyed by call."""

    round: ToolRound
    calls: list[ToolCall]
    effects: dict[UUID, EffectRecord] = field(default_factory=dict)
    approvals: dict[UUID, Approval] = field(default_factory=dict)


def load_round(session: UUID) -> OpenRound | None:
    """The open round of a session, read once per claim."""
    open_round = ToolRound.objects.filter(session=session).exclude(state="settled").first()
    if open_round is None:
        return None
    calls = list(ToolCall.objects.filter(round=open_round).order_by("position"))
    effects = EffectRecord.objects.filter(call__in=calls)
    approvals = Approval.objects.filter(call__in=calls, state__in=("pending", "approved"))
    return OpenRound(open_round, calls, {e.call_id: e for e in effects}, {a.call_id: a for a in approvals})


def record_step(lease: Lease, body: Any, usage: dict[str, Any], judged: Sequence[JudgedCall]) -> OpenRound | None:
    """T1: transcript, round, calls, decisions, effects, approvals and events of one model response, at once.

    Returns the open round, or None when there is nothing to run: no calls (the session is completed), or every call was
    blocked (their results are in the transcript and the model goes on).
    """
    with transition(lease.session, fence=lease.fence) as change:
        session = change.session
        change.set(steps=session.steps + 1, stalls=0)
        add_message(change, "model", body)
        change.event("model.completed", step=session.steps, usage=usage, calls=len(judged))
        if not judged:
            change.session_to("completed")
            change.event("session.completed", steps=session.steps)
            return None
        work = _add_round(change, judged)
        route(change, work.round, work.calls)
    return None if work.round.state == "settled" else work


def stop_session(lease: Lease, why: str, kind: str, **payload: Any) -> None:
    """The holder gives the session up for a reason that a person or a new message lifts (`limit_reached`, …)."""
    with transition(lease.session, fence=lease.fence) as change:
        change.event(kind, **payload)
        change.session_to("interrupted", interruption=why, stopped_by=why)
        change.event("session.interrupted", interruption=why)


def release_lease(lease: Lease) -> None:
    """Give a session back as runnable at once: the slice is over, or the worker stops."""
    with transition(lease.session, fence=lease.fence) as change:
        change.session_to("pending", runnable_at=change.now)
        change.wake()


def add_message(change: Change, role: str, body: Any) -> None:
    session = change.session
    position = change.next("messages")
    row = Message(
        tenant_id=session.tenant_id, session=session, position=position, role=role, body=body, created_at=change.now
    )
    change.add(row)


def _add_round(change: Change, judged: Sequence[JudgedCall]) -> OpenRound:
    session = change.session
    row = ToolRound(
        id=ids.new_id(),
        tenant_id=session.tenant_id,
        session=session,
        position=change.next("rounds"),
        state="executing",
        created_at=change.now,
    )
    work = OpenRound(row, [_new_call(change, row, n, call) for n, call in enumerate(judged)])
    for call, verdict in zip(work.calls, judged, strict=True):
        if call.state == "blocked":
            change.event("tool.call.blocked", call=call, reason=call.reason, why=verdict.problem or verdict.reason)
            continue
        if call.effect_class != ToolEffect.NONE:
            work.effects[call.id] = _new_effect(change, call)
        if call.state == "awaiting_approval":
            work.approvals[call.id] = _new_approval(change, call, verdict)
    states = {call.state for call in work.calls}
    if "awaiting_approval" in states:
        row.state = "waiting"
    elif states <= set(CLOSED_CALL):
        row.state, row.settled_at = "settled", change.now
    change.add(row)
    change.add(*work.calls)
    change.add(*work.effects.values())
    change.add(*work.approvals.values())
    if row.state == "settled":
        add_message(change, "tools", results.results_message(work.calls, change.now))
    return work


def _new_call(change: Change, row: ToolRound, position: int, judged: JudgedCall) -> ToolCall:
    session, tool = change.session, judged.tool
    name = tool.spec.name if tool else canonical.bounded(canonical.storable_key(judged.proposed.tool), 100)
    version = tool.spec.version if tool else ""
    target = judgement.target_of(tool, judged.arguments)
    operation = ids.operation_id(session.tenant_id, session.id, row.position, judged.proposed.call_id)
    action, intent = judgement.action_digests(
        session.tenant_id, name, version, judged.effect.value, judged.arguments, target, operation
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
        created_at=change.now,
    )
    if judged.problem or judged.decision is PolicyDecision.DENY:
        call.state, call.reason, call.finished_at = "blocked", "invalid" if judged.problem else "policy", change.now
        call.result = results.call_result(
            "blocked", executed=False, reason=judged.problem or judged.reason or "Not allowed."
        )
    else:
        call.state = "prepared" if judged.decision is PolicyDecision.ALLOW else "awaiting_approval"
    return call


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


def _new_approval(change: Change, call: ToolCall, judged: JudgedCall) -> Approval:
    session = change.session
    approval = Approval(
        id=ids.new_id(),
        tenant_id=call.tenant_id,
        session=session,
        call=call,
        intent_digest=call.intent_digest,
        agent=session.agent,
        task=session.task,
        tool=call.tool,
        verb=call.verb,
        target=call.target,
        effect_class=call.effect_class,
        policy_reason=call.decision_reason,
        requester=session.requester,
        requester_name=session.requester_name,
        four_eyes=judged.four_eyes,
        state="pending",
        created_at=change.now,
        expires_at=change.now + timedelta(seconds=judged.expires_in),
    )
    change.event(
        "tool.call.approval_requested",
        call=call,
        approval=str(approval.id),
        version=approval.version,
        digest=approval.intent_digest.hex(),
        expires_at=approval.expires_at.isoformat(),
        policy=call.policy,
    )
    return approval


def route(change: Change, row: ToolRound, calls: Sequence[ToolCall]) -> None:
    """After calls of a round moved: settle it or let it execute, and put the session where that leaves it."""
    states = {call.state for call in calls}
    if row.state != "settled":
        if states <= set(CLOSED_CALL):
            add_message(change, "tools", results.results_message(calls, change.now))
            change.move(row, "settled")
        elif row.state == "waiting" and not states & {"awaiting_approval", "awaiting_answer"}:
            change.move(row, "executing")
    interruption = interruption_of(change.session, states)
    session = change.session
    if interruption is not None:
        if session.state != "interrupted" or session.interruption != interruption:
            change.session_to("interrupted", interruption=interruption)
            change.event("session.interrupted", interruption=interruption)
    elif session.state == "interrupted":
        change.session_to("pending", runnable_at=change.now)
        change.event("session.resumed")
        change.wake()


def interruption_of(session: Session, call_states: set[str]) -> str | None:
    """Why this session waits, given the states of its open round's calls: the first that applies (DESIGN §3)."""
    if "outcome_unknown" in call_states:
        return "effect_outcome_unknown"
    if "awaiting_answer" in call_states:
        return "user_input_required"
    if "awaiting_approval" in call_states:
        return "approval_required"
    if session.client_driven:
        return "client_execution"
    return session.stopped_by


def agent_limits_reached(agent: Agent, session_steps: int, calls: int) -> str | None:
    """A sentence when one more step, or this many calls, passes the agent's limits."""
    if session_steps >= agent.limits.max_steps:
        return f"{session_steps} model steps were taken; the limit of agent {agent.name!r} is {agent.limits.max_steps}."
    if calls > agent.limits.max_calls_per_round:
        return f"{calls} calls in one step; the limit of agent {agent.name!r} is {agent.limits.max_calls_per_round}."
    return None
