"""T3 and T4: intent is committed before a tool runs, what came of it after (DESIGN §6).

T3 reads the kill switch; a paused call stays prepared, and its session tries again later. A call without effect and
without a gate skips T3: it runs under the lease alone and leaves one commit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ..contracts import Agent, PolicyDecision, Receipt, Tool, ToolContext, ToolEffect
from ..models import Approval, Attempt, EffectRecord, Session, ToolCall
from ..selectors.pause import pause_of
from . import attachments, canonical, grants, ids, judgement, repetition, results, reviewed
from .decisions import close_expired
from .endings import STALE, OpenRound, block_call, fail_lost, mark_unknown
from .lease import Lease
from .perform import Ambiguous, Done, NotDone, Outcome
from .routing import route
from .states import CLOSED_CALL
from .transitions import Change, transition
from .verification import record_verification

PAUSED, PAUSED_SECONDS = "dispatch_paused", 30.0
IN_FLIGHT, IN_FLIGHT_SECONDS = "equal_in_flight", 5.0
MAX_RUNS = 2


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A committed intent: the tool may run once under it, until `deadline`; `until` is that moment on this process's
    clock.
    """

    dispatch_id: UUID
    deadline: datetime
    until: float
    replayed: bool


@dataclass(frozen=True, slots=True)
class Intent:
    """What T3 decided. No dispatch: refused, and the rows say why. `goes_on`: the holder goes on with the session."""

    dispatch: Dispatch | None
    goes_on: bool


def record_intent(
    lease: Lease, work: OpenRound, call: ToolCall, tool: Tool | None, refusal: str, dispatch_id: UUID, until: float
) -> Intent:
    """T3. Everything is checked again under the lock, by the database's clock. `refusal`: the policy denies it by
    now.
    """
    effect, approval = work.effects.get(call.id), work.approvals.get(call.id)
    with transition(lease.session, fence=lease.fence) as change:
        tool = tool if reviewed.may_use(change, call) else None
        if change.session.state != "interrupting" and _may_begin(change, call, tool, effect, approval, refusal):
            assert tool is not None  # _may_begin refuses a call whose tool is gone or which is not what was reviewed
            dispatch = _dispatch(change, lease, call, tool, effect, dispatch_id, until)
            if approval is not None:
                change.move(approval, "consumed")
            reviewed.use(change, call)
            return Intent(dispatch, goes_on=True)
        if call.state == "prepared" and change.session.state == "running":
            _wait(change, call)
        else:
            route(change, work)
        return Intent(None, change.session.state == "running")


def _may_begin(
    change: Change,
    call: ToolCall,
    tool: Tool | None,
    effect: EffectRecord | None,
    approval: Approval | None,
    refusal: str,
) -> bool:
    """Refusals end the call here, except a pause: it leaves the call prepared."""
    if approval is not None:
        approval.call = call
        if approval.expires_at <= change.now:
            close_expired(change, approval, effect)
            return False
    if tool is None or not _is_what_was_authorised(change, call, effect, approval):
        block_call(change, call, effect, approval, "stale", STALE)
        return False
    if refusal:
        block_call(change, call, effect, approval, "policy", refusal)
        return False
    found = repetition.before_dispatch(change, call)
    external = call.effect_class == ToolEffect.EXTERNAL
    if found.uncertain is not None and external:
        block_call(change, call, effect, approval, "linked", repetition.LINKED)
        return False
    if _is_paused(change, call, found):
        return False
    if found.in_flight and external:
        if call.reason != IN_FLIGHT:
            change.update(call, reason=IN_FLIGHT)
            change.event("tool.call.held", call=call, reason="An equal action is being carried out.")
        return False
    if approval is not None and not grants.holds(change, approval):
        block_call(change, call, effect, approval, "stale", grants.TAKEN_BACK)
        return False
    if found.uncertain is not None and effect is not None and not effect.dispatches:
        repetition.link(change, effect, found.uncertain)
    return True


def _is_paused(change: Change, call: ToolCall, found: repetition.Before) -> bool:
    """Whether the kill switch holds this call back. It stays as it is, and says so."""
    pause = pause_of(change.session.tenant_id, call.tool, change.session.agent) if found.paused else None
    if pause is not None and call.reason != PAUSED:
        change.update(call, reason=PAUSED)
        change.event("tool.call.paused", call=call, reason=pause.reason, by=pause.created_by)
    return pause is not None


def _wait(change: Change, call: ToolCall) -> None:
    """Give the session back until it is worth looking again."""
    seconds = IN_FLIGHT_SECONDS if call.reason == IN_FLIGHT else PAUSED_SECONDS
    change.session_to("pending", runnable_at=change.now + timedelta(seconds=seconds))


def _dispatch(
    change: Change,
    lease: Lease,
    call: ToolCall,
    tool: Tool,
    effect: EffectRecord | None,
    dispatch_id: UUID,
    until: float,
    *,
    replayed: bool = False,
) -> Dispatch:
    deadline = change.now + timedelta(seconds=tool.spec.timeout)
    dispatch = Dispatch(dispatch_id, deadline, until, replayed=replayed)
    change.move(call, "dispatched", dispatched_at=change.now, runs=call.runs + 1, reason="")
    if effect is not None:
        _begin(change, lease, effect, dispatch, "intent_recorded")
    change.event(
        "tool.call.started",
        call=call,
        dispatch=str(dispatch.dispatch_id),
        effect=str(effect.id) if effect else None,
        deadline=dispatch.deadline.isoformat(),
        replayed=dispatch.replayed,
    )
    return dispatch


def may_replay(call: ToolCall, tool: Tool | None) -> bool:
    """Whether an ambiguous run may be repeated once under the same key: IDEMPOTENT, not switched off, not yet
    repeated.
    """
    return call.effect_class == ToolEffect.IDEMPOTENT and call.runs < MAX_RUNS and tool is not None and tool.spec.replay


def record_replay(lease: Lease, work: OpenRound, call: ToolCall, tool: Tool, why: Ambiguous, refusal: str) -> Intent:
    """T3 for a call that runs once more: an ambiguous IDEMPOTENT one under its key, a gated NONE one of a lost worker.

    What holds for a first run holds for this one: the kill switch, the recorded digests, the policy of now. One that
    may not begin again ends as what its first run left.
    """
    effect = work.effects.get(call.id)
    until = time.monotonic() + tool.spec.timeout
    with transition(lease.session, fence=lease.fence) as change:
        stopped = change.session.state == "interrupting"
        if stopped or refusal or not _has_its_digests(change, call, effect):
            if effect is None:
                fail_lost(change, call)
            else:
                close_call(change, call, effect, why)
            route(change, work)
            return Intent(None, change.session.state == "running")
        if _is_paused(change, call, repetition.before_dispatch(change, call)):
            _wait(change, call)
            return Intent(None, goes_on=False)
        if effect is not None:
            change.close_attempt(effect, "superseded", {"outcome": "ambiguous", **why.evidence})
        return Intent(_dispatch(change, lease, call, tool, effect, ids.new_id(), until, replayed=True), goes_on=True)


def _begin(change: Change, lease: Lease, effect: EffectRecord, dispatch: Dispatch, state: str) -> None:
    change.move(
        effect,
        state,
        dispatch_id=dispatch.dispatch_id,
        dispatches=effect.dispatches + 1,
        dispatched_at=change.now,
        deadline=dispatch.deadline,
        dispatch_fence=lease.fence,
        dispatched_by=lease.owner,
    )
    change.add(
        Attempt(
            id=ids.new_id(),
            tenant_id=effect.tenant_id,
            effect=effect,
            kind="dispatch",
            state="admitted",
            dispatch_id=dispatch.dispatch_id,
            actor=lease.owner,
            admitted_at=change.now,
        )
    )


def _is_what_was_authorised(
    change: Change, call: ToolCall, effect: EffectRecord | None, approval: Approval | None
) -> bool:
    """Whether what is about to run has the recorded digests, and a gated call its live approval of them."""
    if not _has_its_digests(change, call, effect):
        return False
    if call.decision != PolicyDecision.REQUIRE_APPROVAL:
        return True
    return approval is not None and approval.state == "approved" and approval.intent_digest == call.intent_digest


def _has_its_digests(change: Change, call: ToolCall, effect: EffectRecord | None) -> bool:
    _, intent = judgement.action_digests(
        change.session.tenant_id,
        call.tool,
        call.tool_version,
        call.effect_class,
        call.arguments,
        call.target,
        call.operation_id,
    )
    return intent == call.intent_digest and (effect is None or effect.intent_digest == intent)


def context_for(
    agent: Agent,
    session: Session,
    call: ToolCall,
    effect: EffectRecord | None,
    dispatch: Dispatch | None,
    seconds: float,
) -> ToolContext:
    return ToolContext(
        session_id=session.session_id,
        tenant=str(session.tenant_id),
        agent_name=agent.name,
        call_id=call.call_id,
        operation_id=call.operation_id,
        idempotency_key=effect.idempotency_key if effect else call.operation_id,
        dispatch_id=str(dispatch.dispatch_id) if dispatch else "",
        replayed=dispatch.replayed if dispatch else call.lost > 0,
        deadline=dispatch.deadline if dispatch else None,
        seconds_left=seconds,
        conditions=tuple(call.conditions or ()),
        resources=agent.resources,
    )


def settle(lease: Lease, work: OpenRound, ended: Sequence[tuple[ToolCall, Outcome]]) -> bool:
    """T4: outcomes, receipts, events, and with the last call the round's results. False: the session now waits."""
    with transition(lease.session, fence=lease.fence) as change:
        change.set(stalls=0)
        for call, outcome in ended:
            approval = work.approvals.get(call.id)
            asked = approval is not None and approval.grant_id is None
            said = approval.decided_by.reason if approval and asked and approval.decided_by else ""
            close_call(change, call, work.effects.get(call.id), outcome, said=said)
        route(change, work)
        return change.session.state == "running"


def close_call(
    change: Change,
    call: ToolCall,
    effect: EffectRecord | None,
    outcome: Outcome,
    *,
    source: str = "native",
    said: str = "",
    details: dict[str, Any] | None = None,
) -> None:
    """Write one outcome to a call and its effect. The attempt that was open on the effect is selected by it.

    `said` is what the person who approved it wrote, which the model is told with the result. What a verifier has to
    look at first is only `receipted`, and its call stays open until that has spoken.
    """
    if isinstance(outcome, Ambiguous) and effect is not None:
        mark_unknown(change, call, effect, outcome.evidence)
        return
    done = isinstance(outcome, Done)
    if isinstance(outcome, Ambiguous):
        failure = f"The tool failed ({outcome.classification}): {outcome.summary}"
        result = results.call_result("failed", executed=True, reason=failure)
        reason = outcome.classification
    else:
        executed = isinstance(outcome, Done) or (effect is None and outcome.begun)
        result = result_of(outcome, effect, executed=executed)
        reason = "" if done else "tool_error"
        if outcome.check is not None and effect is None:
            result["verification"] = record_verification(change, call, outcome.check, result)
        attachments.keep(change, call, effect, outcome.attachments)
    if said:
        result["approver_said"] = said
    if call.conditions:
        result["approved_under_conditions"] = call.conditions
    if effect is None:
        end_call(change, call, result, reason, None)
        return
    receipt = receipt_of(change, effect, result, source, details)
    if isinstance(outcome, Done) and outcome.verified_later:
        close_effect(change, call, effect, "receipted", receipt, result)
    else:
        close_effect(change, call, effect, "completed" if done else "rejected", receipt)
        end_call(change, call, result, reason, receipt.digest)


def close_effect(
    change: Change, call: ToolCall, effect: EffectRecord, state: str, receipt: Receipt, result: Any = None
) -> None:
    """Give an effect its receipt. The attempt that is open on it is selected, and keeps `result` if that is needed
    later.
    """
    envelope = receipt.envelope()
    change.move(effect, state, receipt=envelope, receipt_digest=bytes.fromhex(receipt.digest))
    evidence = {"outcome": state, "receipt_digest": receipt.digest, "source": receipt.source}
    if "message" in receipt.details:
        evidence["message"] = receipt.details["message"]
    change.close_attempt(effect, "selected", evidence if result is None else {**evidence, "result": result})
    if receipt.source in ("lookup", "supplied", "journal"):
        change.event("tool.effect.receipt.validated", call=call, effect=str(effect.id), receipt_evidence=envelope)


def end_call(change: Change, call: ToolCall, result: dict[str, Any], reason: str, receipt: str | None) -> None:
    """A call that ran gets its one result."""
    change.move(call, "completed" if result["status"] == "completed" else "failed", result=result, reason=reason)
    change.event(
        f"tool.call.{call.state}",
        call=call,
        status=result["status"],
        executed=result["executed"],
        outcome_unknown=False,
        receipt=receipt,
    )


def result_of(outcome: Done | NotDone, effect: EffectRecord | None, *, executed: bool) -> dict[str, Any]:
    return results.from_tool(
        "completed" if isinstance(outcome, Done) else "failed",
        outcome.result,
        executed=executed,
        hide=effect.idempotency_key if effect else "",
        attachments=[part.reference for part in outcome.attachments],
    )


def receipt_of(
    change: Change, effect: EffectRecord, result: dict[str, object], source: str, details: dict[str, Any] | None = None
) -> Receipt:
    return Receipt(
        operation_id=effect.operation_id,
        dispatch_id=str(effect.dispatch_id or ""),
        outcome="completed" if result["status"] == "completed" else "rejected",
        source=source,
        digest=canonical.digest(result).hex(),
        observed_at=change.now.isoformat(),
        details=details or {},
    )


def needs_intent(call: ToolCall, work: OpenRound) -> bool:
    """Whether a call goes through T3: it has an effect, a person authorised it, or it uses up a proposal."""
    return call.effect_class != ToolEffect.NONE or call.id in work.approvals or call.proposal_id is not None


def front_of(work: OpenRound) -> list[ToolCall]:
    """The ungated NONE calls that are next in the round: none of them waits for a sibling."""
    front: list[ToolCall] = []
    for call in work.calls:
        if call.state in CLOSED_CALL:
            continue
        if call.state != "prepared" or needs_intent(call, work):
            break
        front.append(call)
    return front
