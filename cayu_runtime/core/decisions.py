"""T2: one answer to an approval, by a person or by time (DESIGN §6). Late answers and repeated ones end here too.

A refusal that must leave a trace commits its event and returns the conflict; the caller raises it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ..contracts import Actor
from ..errors import AlreadyDecided, ApprovalExpired, Conflict, DigestMismatch, NotFound, StaleVersion
from ..models import Approval, Decision, EffectRecord
from . import ids, results, reviewed
from .endings import OpenRound, abandon_effect
from .routing import load_round, place_session, settle_round
from .states import LEASED
from .transitions import Change, transition

MAX_REASON = 2000


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer: the verdict, what they saw (`version`, `digest`), and why."""

    verdict: str
    version: int
    digest: bytes
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """The recorded decision. `replay`: it had been recorded before, by this same answer of this same person."""

    approval: Approval
    decision: Decision
    replay: bool


def decide(session: UUID, tenant: UUID, approval_id: UUID, answer: Answer, actor: Actor) -> Decided | Conflict:
    """Record one decision. Exactly one effective decision per approval; everybody else gets a Conflict naming it."""
    with transition(session, tenant=tenant) as change:
        work, approval = _find(change, approval_id)
        if work is None or approval.state != "pending":
            return _too_late(approval, answer, actor)
        if approval.expires_at <= change.now:
            return _expired(change, work, approval, answer, actor)
        if answer.version != approval.version:
            return StaleVersion("The request changed since this page was read. Read it again before deciding.")
        if answer.digest != approval.intent_digest:
            return DigestMismatch(
                "The digest is not that of the request. Decide from the page or the API's own record."
            )
        call = approval.call
        differs = reviewed.refuse_approval(call) if answer.verdict == "approve" else None
        if differs is not None:
            return differs
        decision = _record(change, approval, answer, actor)
        effect = work.effects.get(call.id)
        if answer.verdict == "approve":
            change.move(approval, "approved", decided_at=change.now, decided_by=decision)
            change.move(call, "prepared")
            if effect is not None:
                change.move(effect, "authorized")
        else:
            change.move(approval, "denied", decided_at=change.now, decided_by=decision)
            said = f"Denied by {actor.name}." + (f" Reason: {decision.reason}" if decision.reason else "")
            change.move(call, "denied", result=results.call_result("denied", executed=False, reason=said))
            if effect is not None:
                abandon_effect(change, effect)
            reviewed.withdraw_proposal(change, call, said)
        kind = "tool.call.approved" if answer.verdict == "approve" else "tool.call.approval_denied"
        change.event(
            kind,
            call=call,
            approval=str(approval.id),
            by=actor.subject,
            by_name=actor.name,
            source=actor.source,
            version=answer.version,
            digest=answer.digest.hex(),
            reason=decision.reason,
        )
        _route(change, work)
    return Decided(approval, decision, replay=False)


def expire(session: UUID, approval_id: UUID) -> bool:
    """Expire an approval whose time is over, approved but undispatched ones too. Time never grants. False: not due."""
    with transition(session) as change:
        work, approval = _find(change, approval_id)
        if work is None or approval.expires_at > change.now:
            return False
        close_expired(change, approval, work.effects.get(approval.call_id))
        _route(change, work)
    return True


def close_expired(change: Change, approval: Approval, effect: EffectRecord | None, **payload: str) -> None:
    """The rows of an approval that ran out: it, its call and its effect end without a run."""
    call = approval.call
    change.move(approval, "expired", reason="Nobody decided, or nothing was dispatched, in time.")
    said = f"The approval's time ended at {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC. Nothing was done."
    change.move(call, "expired", result=results.call_result("expired", executed=False, reason=said))
    if effect is not None:
        abandon_effect(change, effect)
    reviewed.withdraw_proposal(change, call, said)
    change.event("tool.call.approval_expired", call=call, approval=str(approval.id), **payload)


def _find(change: Change, approval_id: UUID) -> tuple[OpenRound | None, Approval]:
    """The approval with the open round that waits for it; without a round when it waits no more."""
    work = load_round(change.session.id)
    for approval in work.approvals.values() if work else ():
        if approval.id == approval_id:
            return work, approval
    closed = Approval.objects.select_related("decided_by").filter(session=change.session, pk=approval_id).first()
    if closed is None:
        raise NotFound("There is no such approval.")
    return None, closed


def _record(change: Change, approval: Approval, answer: Answer, actor: Actor) -> Decision:
    decision = Decision(
        id=ids.new_id(),
        tenant_id=change.session.tenant_id,
        approval=approval,
        verdict=answer.verdict,
        actor=actor.subject,
        actor_name=actor.name,
        source=actor.source,
        roles=list(actor.roles),
        version=answer.version,
        digest=answer.digest,
        reason=results.clean_text(answer.reason, MAX_REASON),
        decided_at=change.now,
    )
    change.add(decision)
    return decision


def _route(change: Change, work: OpenRound) -> None:
    """Settle the round if this was its last call. A session that a worker holds is moved on by that worker."""
    settle_round(change, work.round, work.calls)
    if change.session.state not in LEASED:
        place_session(change, {call.state for call in work.calls})


def _expired(change: Change, work: OpenRound, approval: Approval, answer: Answer, actor: Actor) -> Conflict:
    effect = work.effects.get(approval.call_id)
    close_expired(change, approval, effect, tried_by=actor.subject, tried_by_name=actor.name, tried=answer.verdict)
    _route(change, work)
    return ApprovalExpired(
        f"The time to decide ended at {_at(approval.expires_at)}. Nothing ran; the agent may ask again."
    )


def _too_late(approval: Approval, answer: Answer, actor: Actor) -> Decided | Conflict:
    won = approval.decided_by
    if won is None:
        if approval.state == "expired":
            return ApprovalExpired(f"The time to decide ended at {_at(approval.expires_at)}. Nothing ran.")
        return Conflict(f"This request is {approval.state}: {approval.reason or 'it can no longer be decided'}")
    same = (won.actor, won.verdict, won.version, won.digest) == (
        actor.subject,
        answer.verdict,
        answer.version,
        answer.digest,
    )
    if same:
        return Decided(approval, won, replay=True)
    said = "approved" if won.verdict == "approve" else "denied"
    winner = {"by": won.actor_name, "verdict": won.verdict, "at": won.decided_at.isoformat()}
    return AlreadyDecided(f"Already {said} by {won.actor_name} at {_at(won.decided_at)}.", winner=winner)


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
