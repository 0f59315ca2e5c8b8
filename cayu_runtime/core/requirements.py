"""What a tool can't begin without: looked for before anything is dispatched (DESIGN §4)."""

from __future__ import annotations

from ..contracts import Agent, Tool
from ..models import ToolCall
from . import results
from .endings import OpenRound, abandon_effect
from .lease import Lease
from .reviewed import withdraw_proposal
from .routing import route
from .transitions import transition


def lacks(agent: Agent, tool: Tool) -> str:
    """What a tool requires and its agent has not, as a sentence; empty when it may begin."""
    missing = [name for name in tool.spec.requires if agent.resources.get(name) is None]
    if not missing:
        return ""
    names = ", ".join(map(repr, missing))
    return f"This tool requires {names}, which agent {agent.name!r} does not have here. Nothing was done."


def record_unable(lease: Lease, work: OpenRound, call: ToolCall, why: str) -> bool:
    """End a prepared call that can't begin. False: the session now waits for someone."""
    effect, approval = work.effects.get(call.id), work.approvals.get(call.id)
    with transition(lease.session, fence=lease.fence) as change:
        if change.session.state != "interrupting":
            if approval is not None:
                change.move(approval, "void", reason=results.clean_text(why, 500))
                change.event("tool.call.approval_void", call=call, approval=str(approval.id), reason=why)
            if effect is not None:
                abandon_effect(change, effect)
            result = results.call_result("failed", executed=False, reason=why)
            change.move(call, "failed", reason="missing_resource", result=result)
            change.event("tool.call.failed", call=call, status="failed", executed=False, reason=why)
            withdraw_proposal(change, call, why)
        route(change, work)
        return change.session.state == "running"
