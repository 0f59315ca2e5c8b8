"""A tool's own answer that comes after its dispatch was given up (DESIGN §6). It needs the dispatch_id, not the fence.

While the effect is uncertain it settles it, and takes the place of an admitted attempt. A retry that was offered or
authorised meanwhile is taken back. Later it is kept beside what was decided, and marked if it contradicts.
"""

from __future__ import annotations

from uuid import UUID

from ..contracts import Finding
from ..models import Approval, Attempt, EffectRecord, ToolCall
from . import attachments, canonical, ids
from .dispatch import Dispatch, close_call, close_effect, receipt_of, result_of
from .endings import OpenRound
from .lease import Lease
from .perform import Done, NotDone
from .reconciliation import supersede
from .routing import load_round, place_session, settle_round
from .states import CLOSED_CALL, CLOSED_EFFECT, LEASED
from .transitions import Change, transition

SETTLES = ("intent_recorded", "outcome_unknown", "manual_review")


def record_late(lease: Lease, call_id: UUID, dispatch: Dispatch, outcome: Done | NotDone) -> None:
    with transition(lease.session) as change:
        effect = EffectRecord.objects.select_related("call").filter(call=call_id).first()
        if effect is None:
            return
        work = load_round(change.session.id)
        call = next((c for c in work.calls if c.id == call_id), None) if work else None
        if work is not None and call is not None:
            effect = work.effects[call_id]
        call = call or effect.call
        _record(change, work, call, effect, dispatch, outcome, lease.owner)
        if work is not None:
            settle_round(change, work.round, work.calls)
            if change.session.state not in LEASED:
                place_session(change, {c.state for c in work.calls})


def _record(
    change: Change,
    work: OpenRound | None,
    call: ToolCall,
    effect: EffectRecord,
    dispatch: Dispatch,
    outcome: Done | NotDone,
    owner: str,
) -> None:
    said = "completed" if isinstance(outcome, Done) else "rejected"
    result = result_of(outcome, effect, executed=isinstance(outcome, Done))
    digest = canonical.digest(result)
    late = Attempt(
        id=ids.new_id(),
        tenant_id=effect.tenant_id,
        effect=effect,
        kind="late_outcome",
        state="selected",
        dispatch_id=dispatch.dispatch_id,
        actor=owner,
        admitted_at=change.now,
        closed_at=change.now,
        evidence={"outcome": said, "digest": digest.hex(), "result": result},
    )
    ours = effect.dispatch_id == dispatch.dispatch_id
    event = {"effect": str(effect.id), "dispatch": str(dispatch.dispatch_id), "digest": digest.hex()}
    if ours and effect.state in SETTLES:
        change.event("tool.effect.late_outcome", call=call, settles=True, **event)
        supersede(change, effect, call, digest, "late outcome")
        if call.state in CLOSED_CALL:  # its session was given up: the effect alone is settled
            attachments.keep(change, call, effect, outcome.attachments)
            close_effect(change, call, effect, said, receipt_of(change, effect, result, "late"))
        else:
            close_call(change, call, effect, outcome, source="late")
        change.add(late)
        return
    was = effect.state
    retry = ours and (was == "safe_to_retry" or (was == "authorized" and effect.dispatches > 0))
    contradicts = retry or _contradicts(effect, dispatch, said, ours=ours)
    if retry:
        _take_back(change, work, call, effect)
    attachments.keep(change, call, effect, outcome.attachments)
    late.state = "superseded"
    late.evidence = {**(late.evidence or {}), "effect_was": was, "contradicts": contradicts}
    change.add(late)
    change.event("tool.effect.late_outcome", call=call, settles=False, contradicts=contradicts, effect_was=was, **event)


def _contradicts(effect: EffectRecord, dispatch: Dispatch, said: str, *, ours: bool) -> bool:
    """Whether it can't be true together with what was decided since."""
    if ours:
        decided = "completed" if effect.state == "receipted" else effect.state
        return decided in CLOSED_EFFECT and decided != said
    return said == "completed" and (effect.state == "rejected" or _was_proved_absent(effect, dispatch))


def _was_proved_absent(effect: EffectRecord, dispatch: Dispatch) -> bool:
    """Then it was sent again, and has happened twice."""
    selected = Attempt.objects.filter(effect=effect, dispatch_id=dispatch.dispatch_id, state="selected")
    return any((attempt.evidence or {}).get("outcome") == Finding.ABSENT for attempt in selected)


def _take_back(change: Change, work: OpenRound | None, call: ToolCall, effect: EffectRecord) -> None:
    """What was proved not to have happened is answered after all: nobody may send it again before a person looked."""
    approval: Approval | None = work.approvals.get(call.id) if work else None
    if approval is not None:
        change.move(approval, "cancelled", reason="The first dispatch answered after all.")
        change.event("tool.call.approval_cancelled", call=call, approval=str(approval.id), reason=approval.reason)
    change.move(call, "outcome_unknown", reason="late_outcome")
    change.move(effect, "manual_review", unknown_since=change.now)
