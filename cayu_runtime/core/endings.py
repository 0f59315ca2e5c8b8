"""How calls and effects end without a result of their tool: unknown, given up, withdrawn (DESIGN §3, §4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ..models import Approval, EffectRecord, Question, ToolCall, ToolRound
from . import canonical, results
from .perform import Ambiguous
from .reviewed import withdraw_proposal
from .transitions import Change

STALE = (
    "The tool, its policy or the call's content changed since it was authorised. Nothing was done; propose it again."
)
STOPPED = {"classification": "stopped", "message": "The session was stopped while the tool may have been running."}


@dataclass(slots=True)
class OpenRound:
    """The open round of a leased session as its holder knows it. Effects and approvals are keyed by call.

    `results` is the transcript entry that settled it. `doubts`: how a run of ours ended that is to be repeated.
    """

    round: ToolRound
    calls: list[ToolCall]
    effects: dict[UUID, EffectRecord] = field(default_factory=dict)
    approvals: dict[UUID, Approval] = field(default_factory=dict)
    results: Any = None
    doubts: dict[UUID, Ambiguous] = field(default_factory=dict)


def mark_unknown(change: Change, call: ToolCall, effect: EffectRecord, evidence: dict[str, object]) -> None:
    """Nobody can tell whether it happened: it stops here until evidence settles it."""
    why = str(evidence.get("classification", "unknown"))
    change.move(call, "outcome_unknown", reason=why)
    change.move(effect, "outcome_unknown", unknown_since=change.now, failure_evidence=canonical.storable(evidence))
    change.close_attempt(effect, "selected", {"outcome": "outcome_unknown", **evidence})
    change.event(
        "tool.effect.outcome_unknown",
        call=call,
        effect=str(effect.id),
        dispatch=str(effect.dispatch_id),
        failure_evidence=evidence,
    )


def doubt_receipt(
    change: Change, call: ToolCall, effect: EffectRecord, verdict: str, evidence: dict[str, object]
) -> None:
    """A receipt is held, but no verifier confirms it: a person looks. Receipt and verification are both kept."""
    change.move(
        effect,
        "manual_review",
        unknown_since=change.now,
        verification=verdict,
        verification_evidence=canonical.storable(evidence),
    )
    if call.state == "dispatched":
        change.move(call, "outcome_unknown", reason="not_verified")


def leave_unverified(change: Change, call: ToolCall, effect: EffectRecord) -> None:
    """A receipt is held, and who should have verified it was stopped: a person looks, and the record says so."""
    doubt_receipt(change, call, effect, "inconclusive", dict(STOPPED))
    change.event(
        "tool.effect.outcome_unknown",
        call=call,
        effect=str(effect.id),
        dispatch=str(effect.dispatch_id),
        state=effect.state,
        failure_evidence=STOPPED,
    )


def give_up_dispatched(change: Change, work: OpenRound) -> None:
    """End what nobody runs any more and nobody will run again: an effect is unknown, a reading call failed."""
    for call in [call for call in work.calls if call.state == "dispatched"]:
        effect = work.effects.get(call.id)
        if effect is not None and effect.state == "receipted":
            leave_unverified(change, call, effect)
        elif effect is not None:
            mark_unknown(change, call, effect, dict(STOPPED))
        else:
            fail_lost(change, call)


def fail_lost(change: Change, call: ToolCall) -> None:
    """A call without effect whose worker is gone and which is not run again."""
    why = "The worker was lost while this tool ran (worker_lost)."
    change.move(call, "failed", result=results.call_result("failed", executed=True, reason=why), reason="worker_lost")
    change.event("tool.call.failed", call=call, status="failed", executed=True, reason="worker_lost")


def withdraw(change: Change, work: OpenRound, *, why: str = "The session was stopped.") -> None:
    """End what has not begun: what people are asked is cancelled, what is authorised fails undone. What runs is left
    alone; what has run and was not verified is left to a person.
    """
    for call in work.calls:
        effect, approval = work.effects.get(call.id), work.approvals.get(call.id)
        if call.state == "dispatched" and effect is not None and effect.state == "receipted":
            leave_unverified(change, call, effect)
            continue
        if call.state in ("awaiting_approval", "awaiting_answer"):
            result = results.call_result("cancelled", executed=False, reason=why)
            change.move(call, "cancelled", result=result, reason="stopped")
            change.event("tool.call.cancelled", call=call, reason=why)
            for question in Question.objects.filter(call=call, state="pending"):
                change.move(question, "cancelled")
        elif call.state == "prepared":
            fail_undone(change, call, effect, approval, "stopped", why)
            continue
        else:
            continue
        _give_back(change, call, effect, approval, why)


def fail_undone(
    change: Change, call: ToolCall, effect: EffectRecord | None, approval: Approval | None, reason: str, why: str
) -> None:
    """A call that is authorised and has not begun ends failed, not executed and not unknown. It competes with dispatch
    on the state of the call: LostRace when that began meanwhile.
    """
    change.move(call, "failed", result=results.call_result("failed", executed=False, reason=why), reason=reason)
    change.event("tool.call.failed", call=call, status="failed", executed=False, outcome_unknown=False, reason=why)
    _give_back(change, call, effect, approval, why)


def _give_back(
    change: Change, call: ToolCall, effect: EffectRecord | None, approval: Approval | None, why: str
) -> None:
    """What belongs to a call that will not begin: nobody is asked, nothing is authorised any more."""
    if approval is not None and approval.state in ("pending", "approved"):
        change.move(approval, "cancelled", reason=why)
    if effect is not None:
        abandon_effect(change, effect)
    withdraw_proposal(change, call, why)


def block_call(
    change: Change, call: ToolCall, effect: EffectRecord | None, approval: Approval | None, reason: str, why: str
) -> None:
    """Refuse a call that has not begun, with what belongs to it; the agent is told why."""
    if approval is not None:
        change.move(approval, "void", reason=results.clean_text(why, 500))
        change.event("tool.call.approval_void", call=call, approval=str(approval.id), reason=why)
    if effect is not None:
        abandon_effect(change, effect)
    result = results.call_result("blocked", executed=False, reason=why)
    change.move(call, "blocked", reason=reason, result=result)
    change.event("tool.call.blocked", call=call, reason=reason, why=why)
    withdraw_proposal(change, call, why)


def abandon_effect(change: Change, effect: EffectRecord) -> None:
    """Close an effect that will not be dispatched (again): `abandoned` if it never was, else `rejected`.

    Of one that was quarantined, evidence has said that it was not done; that it was never sent, nobody knows.
    """
    change.move(effect, "rejected" if effect.dispatches or effect.quarantined_at else "abandoned")
