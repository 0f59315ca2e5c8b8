"""After a database was restored from a backup: nothing that is open may be believed (DESIGN §3, §7).

What was dispatched between the backup and the restore is missing in the rows. So every open effect becomes uncertain,
what people had permitted is void, and the session stops until a person lets it go on: its next model step may ask for
what it had already done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ..contracts import Actor
from ..models import Approval, EffectRecord, Quarantine, ToolCall
from .endings import OpenRound, fail_lost
from .reconciliation import UNCERTAIN
from .routing import load_round, place_session, settle_round
from .states import CLOSED_EFFECT
from .transitions import Change, transition

RESTORED = "restored_backup"
WHY = "The database was restored from a backup. Whether this was done since then is not known here."
EVIDENCE = {"classification": RESTORED, "message": WHY}
FENCES = 1_000_000
"""Claims made after the backup are missing too. None of their fences is given a second time."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What the quarantine of one session took: how many effects, and whether it stopped the session."""

    effects: int
    stopped: bool


NOTHING = Taken(0, False)


def quarantine_session(session: UUID, quarantine: Quarantine, actor: Actor) -> Taken:
    """Make every open effect of a session uncertain, void its approvals, stop it, and fence off who held it.

    A session that has ended, or that was stopped before and has nothing open that this quarantine has not taken yet, is
    left as it is.
    """
    with transition(session) as change:
        row = change.session
        if row.state in ("completed", "failed"):
            return NOTHING
        work = load_round(row.id)
        effects = [one for one in work.effects.values() if _is_to_be_taken(one, quarantine)] if work else []
        stops = row.stopped_by is None
        if not effects and not stops:
            return NOTHING
        change.event(
            "session.quarantined",
            quarantine=str(quarantine.pk),
            by=actor.subject,
            by_name=actor.name,
            effects=len(effects),
            stopped=stops,
        )
        change.set(fence=row.fence + FENCES, stopped_by=row.stopped_by or "operator_requested", model_failures=0)
        if work is not None:
            _doubt(change, work, {effect.pk for effect in effects})
            settle_round(change, work.round, work.calls)
        place_session(change, {call.state for call in work.calls} if work else set())
    return Taken(len(effects), stops)


def _is_to_be_taken(effect: EffectRecord, quarantine: Quarantine) -> bool:
    taken = effect.quarantined_at is not None and effect.quarantined_at >= quarantine.started_at
    return effect.state not in CLOSED_EFFECT and not taken


def _doubt(change: Change, work: OpenRound, taken: set[UUID]) -> None:
    for call in work.calls:
        effect = work.effects.get(call.id)
        if effect is None and call.state == "dispatched":
            fail_lost(change, call)
        elif effect is not None and effect.pk in taken:
            _void(change, call, work.approvals.get(call.id))
            _make_uncertain(change, call, effect)


def _void(change: Change, call: ToolCall, approval: Approval | None) -> None:
    if approval is not None:
        change.move(approval, "void", reason=WHY)
        change.event("tool.call.approval_void", call=call, approval=str(approval.id), reason=WHY)


def _make_uncertain(change: Change, call: ToolCall, effect: EffectRecord) -> None:
    was = effect.state
    marks: dict[str, Any] = {"quarantined_at": change.now}
    if was not in UNCERTAIN:
        marks |= {"unknown_since": change.now, "failure_evidence": dict(EVIDENCE)}
    match was:
        case "proposed" | "authorized" | "intent_recorded":
            change.move(effect, "outcome_unknown", **marks)
        case "safe_to_retry" | "receipted":
            change.move(effect, "manual_review", **marks)
        case _:
            change.update(effect, **marks)
    if call.state != "outcome_unknown":
        change.move(call, "outcome_unknown", reason=RESTORED)
    if was == "intent_recorded":
        change.close_attempt(effect, "selected", {"outcome": "outcome_unknown", **EVIDENCE})
    change.event(
        "tool.effect.quarantined",
        call=call,
        effect=str(effect.id),
        dispatch=str(effect.dispatch_id) if effect.dispatch_id else None,
        was=was,
        state=effect.state,
    )
    if effect.state != was:
        change.event(
            "tool.effect.outcome_unknown",
            call=call,
            effect=str(effect.id),
            dispatch=str(effect.dispatch_id) if effect.dispatch_id else None,
            failure_evidence=EVIDENCE,
        )
