"""T4b: what a verifier says of an effect whose receipt is held (DESIGN §4, §6). It never dispatches.

Passed, the effect is completed and its call gets the result that the receipt is about. Failed, or unable to tell, it
goes to manual review: receipt and verification are both kept.
"""

from __future__ import annotations

from uuid import UUID

from ..contracts import Verdict, Verification
from ..errors import Conflict, NotFound
from ..models import Attempt, EffectRecord
from . import canonical
from .dispatch import end_call
from .endings import OpenRound, doubt_receipt
from .lease import Lease
from .routing import load_round, place_session, route, settle_round
from .states import CLOSED_CALL, LEASED
from .transitions import Change, transition


def record_verdict(lease: Lease, work: OpenRound, call_id: UUID, verification: Verification) -> bool:
    """By the holder of the session. False: it now waits for someone."""
    with transition(lease.session, fence=lease.fence) as change:
        change.set(stalls=0)
        _close(change, work, work.effects[call_id], verification)
        route(change, work)
        return change.session.state == "running"


def require_due(effect: EffectRecord) -> None:
    """Raises Conflict unless the effect's receipt waits for a verifier."""
    if effect.state != "receipted":
        raise Conflict(f"This effect is {effect.state}; no verification is due.")


def record_verdict_unheld(seen: EffectRecord, verification: Verification) -> EffectRecord:
    """After a reconciliation, by whoever asked for it. `seen` is the effect as it was when the verifier was asked: its
    verdict is about that receipt. Raises Conflict when nothing waits for a verifier, or another receipt does.
    """
    with transition(seen.session_id) as change:
        work = load_round(change.session.id)
        effect = EffectRecord.objects.select_related("call").filter(session=change.session, pk=seen.pk).first()
        if effect is None:
            raise NotFound("There is no such effect.")
        require_due(effect)
        if effect.receipt_digest != seen.receipt_digest:
            raise Conflict("Another receipt is held by now than the one that was verified. Verify it again.")
        if work is not None and effect.call_id in work.effects:
            effect = work.effects[effect.call_id]
        _close(change, work, effect, verification)
        if work is not None:
            settle_round(change, work.round, work.calls)
            if change.session.state not in LEASED:
                place_session(change, {call.state for call in work.calls})
    return effect


def _close(change: Change, work: OpenRound | None, effect: EffectRecord, verification: Verification) -> None:
    call = next((c for c in work.calls if c.id == effect.call_id), None) if work else None
    call = call or effect.call
    evidence = {
        "message": verification.message,
        "evidence": canonical.storable(dict(verification.evidence)),
        "at": change.now.isoformat(),
    }
    if verification.verdict is Verdict.PASSED:
        change.move(effect, "completed", verification=verification.verdict.value, verification_evidence=evidence)
        if call.state not in CLOSED_CALL:
            end_call(change, call, _result_of(effect), "", str((effect.receipt or {}).get("digest", "")))
    else:
        doubt_receipt(change, call, effect, verification.verdict.value, evidence)
    change.event(
        "tool.effect.verified",
        call=call,
        effect=str(effect.id),
        operation=effect.operation_id,
        verification=verification.verdict.value,
        message=verification.message,
        state=effect.state,
    )


def _result_of(effect: EffectRecord) -> dict[str, object]:
    """The result that the receipt was made of: the attempt that was selected with it keeps it."""
    digest = str((effect.receipt or {}).get("digest", ""))
    for attempt in Attempt.objects.filter(effect=effect, state="selected").order_by("-closed_at"):
        evidence = attempt.evidence or {}
        if evidence.get("receipt_digest") == digest and isinstance(evidence.get("result"), dict):
            return dict(evidence["result"])
    raise LookupError(f"Effect {effect.pk} is receipted, but no attempt keeps the result of its receipt.")
