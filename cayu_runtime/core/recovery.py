"""After a crash: rows are reclassified by effect class, and the normal path goes on (DESIGN §4, §6).

No tool and no model runs here.
"""

from __future__ import annotations

from ..contracts import Agent
from ..models import EffectRecord, ToolCall
from .dispatch import front_of, may_replay
from .endings import OpenRound, fail_lost, mark_unknown
from .judgement import tool_for
from .lease import MAX_STALLS, Lease
from .perform import Ambiguous
from .routing import place_session, route
from .transitions import Change, transition

MAX_LOST = 2
WORKER_LOST = Ambiguous(
    "worker_lost",
    {"classification": "worker_lost", "message": "The worker was lost while the tool may have been running."},
)


RUN_AGAIN, MARK_UNKNOWN, FAIL_LOST = "run_again", "mark_unknown", "fail_lost"


def recover(lease: Lease, agent: Agent | None, work: OpenRound | None) -> bool:
    """Reclassify what the lost holder left. False: the session now waits for someone."""
    with transition(lease.session, fence=lease.fence) as change:
        if work is not None:
            reclassify(change, agent, work)
            route(change, work)
        elif change.session.state == "interrupting":
            place_session(change, set())
        elif change.session.stalls >= MAX_STALLS:
            change.session_to("interrupted", interruption="worker_lost", stopped_by="worker_lost")
            change.event("session.interrupted", interruption="worker_lost", stalls=change.session.stalls)
        return change.session.state == "running"


def reclassify(change: Change, agent: Agent | None, work: OpenRound) -> None:
    """Move on, each by its effect class, the calls that the lost holder may have been running."""
    lost = in_flight(work)
    for call in lost:
        _reclassify(change, agent, work, call)
    if lost:
        change.set(stalls=0)


def in_flight(work: OpenRound) -> list[ToolCall]:
    """Calls that may have been running: the dispatched ones, else the ungated NONE calls at the front of the round.

    One whose receipt is held has ended: the next step verifies it.
    """
    dispatched = [call for call in work.calls if call.state == "dispatched"]
    if not dispatched:
        return front_of(work)
    held = {call_id for call_id, effect in work.effects.items() if effect.state == "receipted"}
    return [call for call in dispatched if call.id not in held]


def fate_of(call: ToolCall, effect: EffectRecord | None, agent: Agent | None, *, stopping: bool) -> str:
    """What becomes of a call whose worker is lost: RUN_AGAIN, MARK_UNKNOWN or FAIL_LOST (DESIGN §4)."""
    if effect is not None:
        tool = tool_for(agent, call) if agent else None
        return RUN_AGAIN if may_replay(call, tool) and not stopping else MARK_UNKNOWN
    stopped = stopping and call.state == "dispatched"
    return FAIL_LOST if stopped or call.lost + 1 >= MAX_LOST else RUN_AGAIN


def _reclassify(change: Change, agent: Agent | None, work: OpenRound, call: ToolCall) -> None:
    effect = work.effects.get(call.id)
    fate = fate_of(call, effect, agent, stopping=change.session.state == "interrupting")
    if fate == MARK_UNKNOWN and effect is not None:
        mark_unknown(change, call, effect, WORKER_LOST.evidence)
        return
    change.update(call, lost=call.lost + 1)
    if fate == FAIL_LOST:
        fail_lost(change, call)
    else:
        change.event("tool.call.worker_lost", call=call, lost=call.lost, runs_again=True)
