"""Settling an uncertain effect by evidence (DESIGN §7): admit, ask outside any transaction, select.

A request names exactly what its person saw. Admitting it commits before the adapter is asked, so that a crash leaves
the attempt on record; what the adapter said is written only while that attempt still is the admitted one. Nothing here
dispatches: what proves that nothing happened leads to a fresh approval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ..contracts import Actor, Finding, Observation, ToolResult
from ..errors import Conflict, EffectConflict, NotFound, StaleRevision, Unfinished
from ..models import Approval, Attempt, EffectRecord, ToolCall
from . import agreement, attachments, canonical, ids, results, reviewed
from .dispatch import close_call, close_effect, receipt_of, result_of
from .endings import OpenRound
from .perform import Done, NotDone
from .requests import new_approval
from .routing import load_round, place_session, settle_round
from .statements import find
from .states import CLOSED_CALL, LEASED
from .transitions import Change, transition

GRACE = timedelta(seconds=60)
RETRY_DAYS = timedelta(days=7)
UNCERTAIN = ("outcome_unknown", "manual_review")
FINDING_OF = {
    "completed": Finding.CONFIRMED_DONE.value,
    "receipted": Finding.CONFIRMED_DONE.value,
    "rejected": Finding.CONFIRMED_REFUSED.value,
}
"""What a selected attempt's outcome says was found; any other outcome is the finding itself."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asks: `lookup`, or to accept a `receipt`. It repeats the identity that they saw."""

    effect: UUID
    dispatch_id: UUID | None
    revision: int
    kind: str
    receipt: Mapping[str, Any] | None = None
    reason: str = ""

    def digest(self, actor: Actor) -> bytes:
        """Identifies the request: the same person asking the same again is the same request."""
        return canonical.digest(
            {
                "effect": str(self.effect),
                "dispatch_id": str(self.dispatch_id),
                "revision": self.revision,
                "kind": self.kind,
                "receipt": self.receipt,
                "actor": actor.subject,
            }
        )


@dataclass(frozen=True, slots=True)
class Admitted:
    """An attempt that was admitted: the adapter may be asked once for it."""

    attempt: Attempt
    call: ToolCall
    effect: EffectRecord
    session_id: str


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What a request led to. `replay`: it had been answered before; the adapter was not asked again."""

    effect: EffectRecord
    attempt: Attempt
    finding: str
    message: str
    replay: bool = False


def admit(session: UUID, tenant: UUID, request: Request, actor: Actor) -> Admitted | Reconciled:
    """Record that somebody asks, before anybody is asked.

    The identical request again returns what was selected for it. Raises NotFound, StaleRevision (it changed since it
    was read), Unfinished (the identical request is under way, or broke off), Conflict when there is nothing to settle.
    """
    digest = request.digest(actor)
    with transition(session, tenant=tenant) as change:
        effect = _effect(change, request.effect)
        earlier = Attempt.objects.filter(effect=effect, request_digest=digest).order_by("-admitted_at").first()
        if earlier is not None and earlier.state != "admitted":
            return _replayed(effect, earlier)
        if (request.revision, request.dispatch_id) != (effect.revision, effect.dispatch_id):
            if earlier is not None:
                raise Unfinished(
                    "This request was admitted and has no answer yet. Read the effect again, and ask anew."
                )
            raise StaleRevision("The effect changed since it was read. Read it again before asking.")
        if effect.state not in UNCERTAIN:
            raise Conflict(f"This effect is {effect.state}: there is nothing uncertain to settle.")
        supersede(change, effect, effect.call, digest, "request")
        attempt = Attempt(
            id=ids.new_id(),
            tenant_id=effect.tenant_id,
            effect=effect,
            kind=request.kind,
            state="admitted",
            dispatch_id=effect.dispatch_id,
            request_digest=digest,
            actor=actor.subject,
            reason=results.clean_text(request.reason, 2000),
            admitted_at=change.now,
        )
        change.add(attempt)
        change.update(effect)
        change.event(
            "tool.effect.reconciliation.started",
            call=effect.call,
            effect=str(effect.id),
            attempt=str(attempt.id),
            dispatch=str(effect.dispatch_id) if effect.dispatch_id else None,
            kind=request.kind,
            request=digest.hex(),
            revision=effect.revision,
            by=actor.subject,
            by_name=actor.name,
            reason=attempt.reason,
        )
    return Admitted(attempt, effect.call, effect, change.session.session_id)


def supersede(change: Change, effect: EffectRecord, call: ToolCall, successor: bytes, by: str) -> None:
    """A newer request, or the tool's own outcome, takes the place of an admitted attempt; both digests are recorded."""
    loser = Attempt.objects.filter(effect=effect, state="admitted").exclude(kind="dispatch").first()
    if loser is None:
        return
    lost = (loser.request_digest or b"").hex()
    change.move(loser, "superseded", evidence={"superseded_by": by, "winner": successor.hex()})
    change.event(
        "tool.effect.reconciliation.conflict",
        call=call,
        effect=str(effect.id),
        kind="reconciliation_superseded",
        loser=lost,
        winner=successor.hex(),
        by=by,
    )


@dataclass(frozen=True, slots=True)
class Executor:
    """Who may have carried the operation out, as it was before the adapter was asked. `gone`: they are known to be.
    `slowest`: the longest that any tool takes, which bounds a dispatch that a restored backup knows nothing of.
    """

    gone: bool
    slowest: timedelta


def select(
    session: UUID, admitted: Admitted, observation: Observation, executor: Executor, *, verified_later: bool
) -> Reconciled:
    """Write what the adapter said, if its attempt still is the admitted one.

    Raises Conflict when something newer took its place; the answer is then dropped.
    """
    with transition(session) as change:
        effect = _effect(change, admitted.effect.pk)
        attempt = Attempt.objects.get(pk=admitted.attempt.pk)
        if attempt.state != "admitted" or effect.revision != admitted.effect.revision:
            raise Conflict("Something newer took the place of this request. Read the effect again.")
        work = load_round(change.session.id)
        call = next((c for c in work.calls if c.id == effect.call_id), None) if work else None
        call = call or effect.call
        finding = _effective(attempt, effect, observation, executor)
        evidence = _evidence(observation, finding)
        if finding in (Finding.CONFIRMED_DONE, Finding.CONFIRMED_REFUSED):
            _settle(change, work, call, effect, attempt, observation, verified_later=verified_later)
        elif finding is Finding.ABSENT:
            _offer_retry(change, work, call, effect, attempt, observation, evidence)
        else:
            _keep(change, call, effect, attempt, finding, evidence)
        if work is not None:
            settle_round(change, work.round, work.calls)
            if change.session.state not in LEASED:
                place_session(change, {c.state for c in work.calls})
    return Reconciled(effect, attempt, finding.value, observation.message)


def _effective(attempt: Attempt, effect: EffectRecord, observation: Observation, executor: Executor) -> Finding:
    """An absence counts only if the earlier dispatch could no longer arrive when the adapter was asked (DESIGN §4);
    else it is an observation.
    """
    if observation.finding is not Finding.ABSENT or observation.barred:
        return observation.finding
    last = last_arrival(effect, executor.slowest)
    proved = last is not None and attempt.admitted_at > last and executor.gone
    return Finding.ABSENT if proved else Finding.NOT_FOUND


def last_arrival(effect: EffectRecord, slowest: timedelta) -> datetime | None:
    """After this moment no dispatch of the effect arrives any more, if its executor is gone.

    A quarantined one may have been dispatched until then without a trace: its end is counted from there.
    """
    ends = [effect.deadline] if effect.deadline else []
    if effect.quarantined_at is not None:
        ends.append(effect.quarantined_at + slowest)
    return max(ends) + GRACE if ends else None


def _settle(
    change: Change,
    work: OpenRound | None,
    call: ToolCall,
    effect: EffectRecord,
    attempt: Attempt,
    observation: Observation,
    *,
    verified_later: bool,
) -> None:
    """A definite answer: receipt and terminal result in one transaction."""
    done = observation.finding is Finding.CONFIRMED_DONE
    reviewed.use(change, call)  # by the dispatch that this is about, if a restored backup knows nothing of it
    result = observation.result or ToolResult(content=observation.message, is_error=True)
    kept, attached = attachments.bound(result, {}, key=effect.idempotency_key)
    outcome = Done(kept, attached, verified_later=verified_later) if done else NotDone(kept, attached)
    source = "journal" if observation.journal else "lookup" if attempt.kind == "lookup" else "supplied"
    details = {
        "attempt": str(attempt.id),
        "message": observation.message,
        "resource_versions": list(observation.resource_versions),
    }
    if call.state not in CLOSED_CALL:
        close_call(change, call, effect, outcome, source=source, details=details)
        return
    written = result_of(outcome, effect, executed=done)  # its session was abandoned: the effect alone is settled
    attachments.keep(change, call, effect, outcome.attachments)
    receipt = receipt_of(change, effect, written, source, details)
    close_effect(change, call, effect, "completed" if done else "rejected", receipt, written)


def _offer_retry(
    change: Change,
    work: OpenRound | None,
    call: ToolCall,
    effect: EffectRecord,
    attempt: Attempt,
    observation: Observation,
    evidence: dict[str, Any],
) -> None:
    """It did not happen and can't any more: a fresh approval may allow one more dispatch of the same operation."""
    changes: dict[str, Any] = {}
    if observation.barred:
        # the downstream will never accept the old one
        changes["idempotency_key"] = ids.key_after(effect.idempotency_key)
    change.move(attempt, "selected", evidence={**evidence, "new_key": bool(changes)})
    if work is None or call.state != "outcome_unknown":
        change.move(effect, "rejected", **changes)
        return
    change.move(effect, "safe_to_retry", **changes)
    change.move(call, "awaiting_approval", reason="safe_to_retry")
    if work.round.state == "executing":  # after a quarantine several calls of a round may come here
        change.move(work.round, "waiting")
    change.event(
        "tool.effect.safe_to_retry",
        call=call,
        effect=str(effect.id),
        attempt=str(attempt.id),
        barred=observation.barred,
    )
    approval = _approval_again(change, call, effect)
    change.add(approval)
    work.approvals[call.id] = approval


def _approval_again(change: Change, call: ToolCall, effect: EffectRecord) -> Approval:
    """The next version: as much time and as many people as the one before had, and nothing to edit."""
    before = Approval.objects.filter(call=call).order_by("-version").first()
    return new_approval(
        change,
        call,
        reason=_again(effect),
        expires_at=change.now + (before.expires_at - before.created_at if before else RETRY_DAYS),
        four_eyes=before.four_eyes if before else True,
        asked=agreement.asked_again(change, before),
        edited_by=before.edited_by if before else "",
        version=before.version + 1 if before else 1,
        again=True,
    )


def _again(effect: EffectRecord) -> str:
    if effect.dispatches:
        return "An earlier dispatch is proved not to have happened. Approving sends it once more."
    return "The database was restored from a backup. It is proved that this was not done since. Approving sends it."


def _keep(
    change: Change, call: ToolCall, effect: EffectRecord, attempt: Attempt, finding: Finding, evidence: dict[str, Any]
) -> None:
    """Nothing definite: the observation stays, and what can't be trusted goes to manual review."""
    change.move(attempt, "selected", evidence=evidence)
    if finding is Finding.UNAVAILABLE and effect.state == "outcome_unknown":
        change.move(effect, "manual_review")
    else:
        change.update(effect)
    told = {"effect": str(effect.id), "attempt": str(attempt.id), "message": evidence["message"]}
    if finding is Finding.CONFLICT:
        change.event("tool.effect.reconciliation.conflict", call=call, kind="validator_rejected", **told)
    else:
        change.event(
            "tool.effect.reconciliation.observed", call=call, finding=finding.value, state=effect.state, **told
        )


def _evidence(observation: Observation, finding: Finding) -> dict[str, Any]:
    return {
        "outcome": finding.value,
        "said": observation.finding.value,
        "message": observation.message,
        "barred": observation.barred,
        "evidence": canonical.storable(dict(observation.evidence)),
        "resource_versions": list(observation.resource_versions),
    }


def _replayed(effect: EffectRecord, attempt: Attempt) -> Reconciled:
    if attempt.state == "superseded":
        raise Conflict("Something newer took the place of this request. Read the effect again.")
    evidence: dict[str, Any] = attempt.evidence or {}
    outcome = str(evidence.get("outcome", ""))
    finding = FINDING_OF.get(outcome, outcome)
    if finding == Finding.CONFLICT:
        raise EffectConflict(str(evidence.get("message", "")) or "The evidence does not fit this operation.")
    return Reconciled(effect, attempt, finding, str(evidence.get("message", "")), replay=True)


def _effect(change: Change, effect_id: UUID) -> EffectRecord:
    effect = find(EffectRecord, session=change.session.pk, id=effect_id)
    if effect is None:
        raise NotFound("There is no such effect.")
    call = find(ToolCall, id=effect.call_id)
    assert call is not None  # a foreign key
    effect.session = call.session = change.session
    effect.call = call
    return effect
