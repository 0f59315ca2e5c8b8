"""T2: one answer to an approval, by a person or by time (DESIGN §6). Late answers and repeated ones end here too.

A refusal that must leave a trace commits its event and returns the conflict; the caller raises it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ..contracts import Actor
from ..contracts.agreement import MAX_CONDITION
from ..errors import (
    AlreadyDecided,
    ApprovalExpired,
    Conflict,
    DigestMismatch,
    HeldAction,
    NotFound,
    StageMoved,
    StaleTool,
    StaleVersion,
)
from ..models import Approval, Decision, EffectRecord, ToolCall
from . import agreement, edits, ids, repetition, results, reviewed
from .edits import Edited
from .endings import STALE, OpenRound, abandon_effect, block_call
from .judgement import Registered
from .routing import go_on, load_round
from .transitions import Change, transition

MAX_REASON = 2000


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer: the verdict, what they saw (`version`, `digest`), why, what they changed before, and the
    condition that they tie their agreement to. `asked`: the (stage, tier) for which the authority permitted it.
    """

    verdict: str
    version: int
    digest: bytes
    reason: str = ""
    edited: Edited | None = None
    condition: str = ""
    asked: tuple[int, int] = (0, 1)

    @property
    def decides(self) -> tuple[int, bytes]:
        """Version and digest of what the answer is about: an edit is the next version."""
        return (self.version + 1, self.edited.intent_digest) if self.edited else (self.version, self.digest)


@dataclass(frozen=True, slots=True)
class Decided:
    """The recorded decision. `replay`: it had been recorded before, by this same answer of this same person.

    The approval is still pending when others must agree too.
    """

    approval: Approval
    decision: Decision
    replay: bool


def decide(
    session: UUID,
    tenant: UUID,
    approval_id: UUID,
    answer: Answer,
    actor: Actor,
    registered: Registered | None = None,
) -> Decided | Conflict:
    """Record one decision. Exactly one ends an approval; everybody else gets a Conflict naming it. Where several people
    must agree, each agreement before the last one is counted, and the approval stays pending.

    `registered` is what this process knows of the agent's tools and policy: what changed since it was asked can't be
    approved any more, and ends here.
    """
    with transition(session, tenant=tenant) as change:
        work, approval = _find(change, approval_id)
        if work is None or approval.state != "pending":
            return _too_late(approval, answer, actor)
        if approval.expires_at <= change.now:
            return _expired(change, work, approval, answer, actor)
        said = _unfit(approval, answer, actor)
        if said is None and answer.verdict == "approve":
            said = _unapprovable(change, work, approval, registered)
        if said is not None:
            return said
        if answer.edited is not None:
            edits.apply(change, approval, work.effects.get(approval.call_id), answer.edited, actor)
            if approval.four_eyes:
                return Decided(approval, _record(change, approval, answer, actor, verdict="edit"), replay=False)
        decision = _record(change, approval, answer, actor)
        if answer.verdict == "approve":
            agreed = _approve(change, work, approval, decision)
        else:
            agreed = True
            _deny(change, work, approval, decision)
        _tell(change, approval, decision, agreed=agreed)
        go_on(change, work)
    return Decided(approval, decision, replay=False)


def _unfit(approval: Approval, answer: Answer, actor: Actor) -> Decided | Conflict | None:
    """Why this answer decides nothing about what is asked now: it is on record, or about something else."""
    mine = _own(approval, answer, actor) if answer.edited is not None or approval.agreement is not None else None
    if mine is not None and answer.condition and answer.condition != mine.condition:
        return Conflict("You agreed already, and what you said then stays on record. Deny it if that is not enough.")
    if mine is not None:
        return Decided(approval, mine, replay=True)
    if answer.version != approval.version:
        return StaleVersion("The request changed since this page was read. Read it again before deciding.")
    if answer.digest != approval.intent_digest:
        return DigestMismatch("The digest is not that of the request. Decide from the page or the API's own record.")
    if answer.asked != (approval.stage, approval.tier):
        return StageMoved("Somebody else must agree by now. Read the request again.")
    return None


def _unapprovable(
    change: Change, work: OpenRound, approval: Approval, registered: Registered | None
) -> Conflict | None:
    """Why what is pending can't be approved. What changed since it was asked ends here."""
    if registered is not None and not registered.fits(approval.call):
        block_call(change, approval.call, work.effects.get(approval.call_id), approval, "stale", STALE)
        go_on(change, work)
        return StaleTool(STALE)
    return _obstacle(change, approval)


def revoke(session: UUID, tenant: UUID, approval_id: UUID, answer: Answer, actor: Actor) -> Decided | Conflict:
    """Take an approval back before its call is dispatched. The call then ends as denied; what is dispatched stays."""
    with transition(session, tenant=tenant) as change:
        work, approval = _find(change, approval_id)
        if work is None or approval.state != "approved":
            return _not_revocable(approval, answer, actor)
        if (answer.version, answer.digest) != (approval.version, approval.intent_digest):
            return StaleVersion("The request changed since this page was read. Read it again before revoking.")
        decision = _record(change, approval, answer, actor)
        change.move(approval, "revoked", reason=results.clean_text(answer.reason, 500))
        _end_denied(change, work, approval, f"The approval was taken back by {actor.name}.", decision)
        _tell(change, approval, decision)
        go_on(change, work)
        if change.session.state == "pending":  # it may wait for a pause of dispatch that concerns it no more
            change.set(runnable_at=change.now)
            change.wake()
    return Decided(approval, decision, replay=False)


def _obstacle(change: Change, approval: Approval) -> Conflict | None:
    """Why what is pending can't be approved, though it is what the person saw."""
    call = approval.call
    uncertain = repetition.held_by(change, call)
    if uncertain is None:
        return reviewed.refuse_approval(call)
    if call.held_by_id != uncertain.pk:
        change.update(call, held_by=uncertain)
        change.event("tool.call.held", call=call, approval=str(approval.id), held_by=str(uncertain.pk))
    return HeldAction(repetition.HELD, held_by=str(uncertain.pk))


def _approve(change: Change, work: OpenRound, approval: Approval, decision: Decision) -> bool:
    """Count an agreement. True: it was the last that is needed, and the call may run."""
    if not agreement.count(change, approval):
        return False
    conditions = agreement.conditions_of(approval)
    change.move(approval, "approved", needed=0, decided_at=change.now, decided_by=decision)
    told = {"conditions": conditions} if conditions != approval.call.conditions else {}
    change.move(approval.call, "prepared", **told)
    effect = work.effects.get(approval.call_id)
    if effect is not None:
        change.move(effect, "authorized")
    return True


def _deny(change: Change, work: OpenRound, approval: Approval, decision: Decision) -> None:
    change.move(approval, "denied", decided_at=change.now, decided_by=decision)
    _end_denied(change, work, approval, f"Denied by {decision.actor_name}.", decision)
    _block_equals(change, work, approval.call)


def _block_equals(change: Change, work: OpenRound, denied: ToolCall) -> None:
    """What was denied does not run under another call of the same round either."""
    for call in work.calls:
        if call.action_digest == denied.action_digest and call.state in ("awaiting_approval", "prepared"):
            effect, approval = work.effects.get(call.id), work.approvals.get(call.id)
            block_call(change, call, effect, approval, "denied_before", repetition.denied_before(denied.result or {}))


def _end_denied(change: Change, work: OpenRound, approval: Approval, said: str, decision: Decision) -> None:
    """The call ends without a run, and the agent is told why."""
    call, effect = approval.call, work.effects.get(approval.call_id)
    said += f" Reason: {decision.reason}" if decision.reason else ""
    change.move(call, "denied", result=results.call_result("denied", executed=False, reason=said))
    if effect is not None:
        abandon_effect(change, effect)
    reviewed.withdraw_proposal(change, call, said)


KINDS = {
    "approve": "tool.call.approved",
    "deny": "tool.call.approval_denied",
    "revoke": "tool.call.approval_revoked",
}


def _tell(change: Change, approval: Approval, decision: Decision, *, agreed: bool = True) -> None:
    told: dict[str, Any] = {"condition": decision.condition} if decision.condition else {}
    if not agreed:
        told |= {"needed": approval.needed, "tier": approval.tier, "stage": approval.stage}
    change.event(
        KINDS[decision.verdict] if agreed else "tool.call.approval_counted",
        call=approval.call,
        approval=str(approval.id),
        by=decision.actor,
        by_name=decision.actor_name,
        source=decision.source,
        version=decision.version,
        digest=decision.digest.hex(),
        reason=decision.reason,
        **told,
    )


def expire(session: UUID, approval_id: UUID) -> bool:
    """Expire an approval whose time is over, approved but undispatched ones too. Time never grants. False: not due."""
    with transition(session) as change:
        work, approval = _find(change, approval_id)
        if work is None or approval.expires_at > change.now:
            return False
        close_expired(change, approval, work.effects.get(approval.call_id))
        go_on(change, work)
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


def _record(change: Change, approval: Approval, answer: Answer, actor: Actor, verdict: str = "") -> Decision:
    decision = Decision(
        id=ids.new_id(),
        tenant_id=change.session.tenant_id,
        approval=approval,
        verdict=verdict or answer.verdict,
        actor=actor.subject,
        actor_name=actor.name,
        source=actor.source,
        roles=list(actor.roles),
        version=answer.decides[0],
        digest=answer.decides[1],
        reason=results.clean_text(answer.reason, MAX_REASON),
        condition=results.clean_text(answer.condition, MAX_CONDITION),
        decided_at=change.now,
    )
    change.add(decision)
    return decision


def _expired(change: Change, work: OpenRound, approval: Approval, answer: Answer, actor: Actor) -> Conflict:
    effect = work.effects.get(approval.call_id)
    close_expired(change, approval, effect, tried_by=actor.subject, tried_by_name=actor.name, tried=answer.verdict)
    go_on(change, work)
    return ApprovalExpired(
        f"The time to decide ended at {_at(approval.expires_at)}. Nothing ran; the agent may ask again."
    )


def _not_revocable(approval: Approval, answer: Answer, actor: Actor) -> Decided | Conflict:
    if approval.state == "pending":
        who = "Nobody approved" if approval.agreement is None else "Not all who must have agreed to"
        return Conflict(f"{who} this yet, so there is nothing to take back. Deny it instead.")
    if approval.state == "consumed":
        return Conflict("Too late: it was dispatched. What has begun can't be taken back.")
    mine = approval.decisions.filter(verdict="revoke", actor=actor.subject).first()
    if approval.state == "revoked" and mine is not None and (mine.version, mine.digest) == answer.decides:
        return Decided(approval, mine, replay=True)
    return Conflict(f"This request is {approval.state}; there is nothing to take back.")


def _too_late(approval: Approval, answer: Answer, actor: Actor) -> Decided | Conflict:
    won = approval.decided_by
    if won is None:
        if approval.state == "expired":
            return ApprovalExpired(f"The time to decide ended at {_at(approval.expires_at)}. Nothing ran.")
        return Conflict(f"This request is {approval.state}: {approval.reason or 'it can no longer be decided'}")
    mine = _own(approval, answer, actor)
    if mine is not None:
        return Decided(approval, mine, replay=True)
    said = "approved" if won.verdict == "approve" else "denied"
    winner = {"by": won.actor_name, "verdict": won.verdict, "at": won.decided_at.isoformat()}
    return AlreadyDecided(f"Already {said} by {won.actor_name} at {_at(won.decided_at)}.", winner=winner)


def _own(approval: Approval, answer: Answer, actor: Actor) -> Decision | None:
    """This same answer of this same person, if it is on record."""
    version, digest = answer.decides
    verdicts = ("approve", "edit") if answer.edited is not None else (answer.verdict,)
    said = approval.decisions.filter(actor=actor.subject, verdict__in=verdicts, version=version, digest=digest)
    return said.first()


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
