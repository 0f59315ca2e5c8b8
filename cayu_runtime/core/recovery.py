"""After a crash: rows are reclassified by effect class, and the normal path goes on (DESIGN §4, §6).

No tool and no model runs here.
"""

from __future__ import annotations

from ..contracts import ToolEffect
from ..models import ToolCall
from . import results
from .dispatch import mark_unknown
from .lease import MAX_STALLS, Lease
from .rounds import OpenRound, route
from .transitions import Change, transition

MAX_LOST = 2
LOST: dict[str, object] = {
    "classification": "worker_lost",
    "message": "The worker was lost while the tool may have been running.",
}


def recover(lease: Lease, work: OpenRound | None) -> bool:
    """Reclassify what the lost holder left. False: the session now waits for someone."""
    with transition(lease.session, fence=lease.fence) as change:
        if work is None or work.round.state == "waiting":
            return _model_step_lost(change)
        moved = [_reclassify(change, work, call) for call in _in_flight(work)]
        if any(moved):
            change.set(stalls=0)
            route(change, work.round, work.calls)
        return change.session.state == "running"


def _in_flight(work: OpenRound) -> list[ToolCall]:
    """Calls that may have been running: the dispatched ones, and ungated NONE calls at the front of the round."""
    found = []
    for call in work.calls:
        if call.state == "dispatched":
            found.append(call)
        elif call.state == "prepared":
            if call.effect_class == ToolEffect.NONE and call.id not in work.approvals:
                found.append(call)
            break
    return found


def _reclassify(change: Change, work: OpenRound, call: ToolCall) -> bool:
    effect = work.effects.get(call.id)
    if effect is not None:
        mark_unknown(change, call, effect, LOST)
        return True
    lost = call.lost + 1
    if lost >= MAX_LOST:
        change.update(call, lost=lost)
        result = results.call_result(
            "failed", executed=True, reason="The worker was lost twice while this tool ran (worker_lost)."
        )
        change.move(call, "failed", result=result, reason="worker_lost")
        change.event("tool.call.failed", call=call, status="failed", executed=True, reason="worker_lost")
    else:
        change.update(call, lost=lost)
        change.event("tool.call.worker_lost", call=call, lost=lost, runs_again=True)
    return True


def _model_step_lost(change: Change) -> bool:
    """The lost holder was asking the model: ask again, at most three times in all."""
    if change.session.stalls < MAX_STALLS:
        return True
    change.session_to("interrupted", interruption="worker_lost", stopped_by="worker_lost")
    change.event("session.interrupted", interruption="worker_lost", stalls=change.session.stalls)
    return False
