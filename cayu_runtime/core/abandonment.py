"""Giving a session up (DESIGN §7): each open call gets its result, the round its end, the session its failure.

What may have happened is not forgotten: its effect stays in doubt and may still be settled by evidence, which then
wakes nothing. Whoever holds the session is fenced off.
"""

from __future__ import annotations

from uuid import UUID

from ..contracts import Actor
from ..errors import Conflict
from ..models import EffectRecord, Proposal, Session, ToolCall
from . import results
from .endings import STOPPED, OpenRound, fail_lost, leave_unverified, mark_unknown, withdraw
from .routing import load_round, settle_round
from .transitions import Change, transition

WHY = "The session was given up."
IN_DOUBT = "The session was given up while nobody could tell whether this happened."


def abandon(session: UUID, tenant: UUID, actor: Actor, reason: str) -> Session:
    """Fail a session for good. Conflict when it has ended already."""
    said = results.clean_text(reason, 500)
    with transition(session, tenant=tenant) as change:
        row = change.session
        if row.state in ("completed", "failed"):
            raise Conflict(f"This session is {row.state} already; there is nothing to give up.")
        change.event("session.abandoned", by=actor.subject, by_name=actor.name, reason=said)
        work = load_round(row.id)
        if work is not None:
            _end_calls(change, work)
            settle_round(change, work.round, work.calls)
        for proposal in Proposal.objects.filter(session=row, state="open"):
            change.move(proposal, "withdrawn", reason=WHY)
        failure = f"Given up by {actor.name}: {said}"[:500]
        change.session_to("failed", failure=failure, fence=row.fence + 1, stopped_by=None)
        change.event("session.failed", failure=failure)
    return row


def _end_calls(change: Change, work: OpenRound) -> None:
    for call in [c for c in work.calls if c.state in ("dispatched", "outcome_unknown")]:
        effect = work.effects.get(call.id)
        if effect is None:
            fail_lost(change, call)
        else:
            _end_in_doubt(change, call, effect)
    withdraw(change, work, why=WHY)


def _end_in_doubt(change: Change, call: ToolCall, effect: EffectRecord) -> None:
    if effect.state == "receipted":
        leave_unverified(change, call, effect)
    elif effect.state == "intent_recorded":
        mark_unknown(change, call, effect, dict(STOPPED))
    result = results.call_result("failed", executed=False, outcome_unknown=True, reason=IN_DOUBT)
    change.move(call, "failed", result=result, reason="abandoned")
    change.update(effect, abandoned_at=change.now)
    change.event("tool.call.failed", call=call, status="failed", executed=False, outcome_unknown=True, reason=IN_DOUBT)
