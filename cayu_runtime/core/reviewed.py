"""Reviewed actions: what binds a call to its proposal, and what becomes of the proposal with the call (DESIGN §3, §5).

The operation of such a call is the proposal's `action_id`. The ledger decides what a second call under it gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ..contracts import PolicyDecision
from ..errors import ProposalConflict
from ..models import EffectRecord, Proposal, ToolCall, ToolRound
from . import canonical, results
from .judgement import JudgedCall
from .statements import fetch, prepared, reader, split
from .states import CLOSED_EFFECT
from .transitions import Change, transition

NEW_ACTION = "Propose under a new action_id."


@dataclass(frozen=True, slots=True)
class Binding:
    """What T1 found for a reviewed call. `reason` and `why`: it is blocked. `repeats`: it was done already."""

    proposal: Proposal | None = None
    repeats: EffectRecord | None = None
    reason: str = ""
    why: str = ""


def bind(change: Change, position: int, judged: Sequence[JudgedCall]) -> list[Binding | None]:
    """T1: for each call that a policy compared with a proposal, what the rows say under the lock; None for others.

    The proposal must be open, of this session and tool, from a round before `position`, and equal to the call's
    arguments. An effect of the same operation answers for it: open, the call is linked; completed, its recorded
    outcome is repeated; closed otherwise, the action needs a new proposal.
    """
    actions = {call.reviewed.action_id for call in judged if call.reviewed and not _refused(call)}
    if not actions:
        return [None] * len(judged)
    found = _on_record(change.session.tenant_id, actions)
    bindings: list[Binding | None] = []
    taken: set[str] = set()
    for call in judged:
        if call.reviewed is None or _refused(call):
            bindings.append(None)
            continue
        action = call.reviewed.action_id
        proposal, effect = found.get(action, (None, None))
        bound = _bound(change, position, call, proposal, effect, again=action in taken)
        if not bound.reason:
            taken.add(action)
        bindings.append(bound)
    return bindings


def _on_record(tenant: UUID, actions: set[str]) -> dict[str, tuple[Proposal | None, EffectRecord | None]]:
    """Each action's proposal, and the effect that its operation has already, if any, with the call of that effect."""
    p, e, c = reader(Proposal, "p"), reader(EffectRecord, "e"), reader(ToolCall, "c")
    marks = ", ".join(["%s"] * len(actions))
    sql = f"""
        SELECT {p.columns}, {e.columns}, {c.columns} FROM {p.table}
        LEFT JOIN {e.table} ON e.tenant_id = p.tenant_id AND e.operation_id = p.action_id
        LEFT JOIN {c.table} ON c.id = e.call_id
        WHERE p.tenant_id = %s AND p.action_id IN ({marks})
    """  # noqa: S608  names come from the models
    found: dict[str, tuple[Proposal | None, EffectRecord | None]] = {}
    for row in fetch(sql, [prepared(Proposal, "tenant", tenant), *sorted(actions)]):
        proposal, effect, call = split((p, e, c), row)
        if effect is not None:
            effect.call = call
        found[proposal.action_id] = (proposal, effect)
    return found


def _refused(call: JudgedCall) -> bool:
    return bool(call.problem) or call.decision is PolicyDecision.DENY


def _bound(
    change: Change,
    position: int,
    call: JudgedCall,
    proposal: Proposal | None,
    effect: EffectRecord | None,
    *,
    again: bool,
) -> Binding:
    if proposal is None or proposal.session_id != change.session.pk or not _is_what_was_read(proposal, call):
        return Binding(reason="policy", why="The proposal is not what the policy read. Nothing was done; ask again.")
    if proposal.round_position >= position:
        return Binding(reason="policy", why="A proposal and its action in one round are refused.")
    if effect is not None:
        return _as_recorded(proposal, effect)
    if again:
        return Binding(proposal, reason="linked", why=f"{proposal.action_id} is asked for in this round already.")
    if proposal.state != "open" or proposal.expires_at <= change.now:
        state = proposal.state if proposal.state != "open" else "expired"
        return Binding(proposal, reason="policy", why=f"Proposal {proposal.action_id} is {state}. {NEW_ACTION}")
    return Binding(proposal)


def _is_what_was_read(proposal: Proposal, call: JudgedCall) -> bool:
    digest = canonical.digest(proposal.fields)
    return (
        call.reviewed is not None
        and call.tool is not None
        and proposal.tool == call.tool.spec.name
        and proposal.fields_digest == digest
        and call.reviewed.digest == digest.hex()
        and canonical.digest(call.arguments) == digest
    )


def _as_recorded(proposal: Proposal, effect: EffectRecord) -> Binding:
    """The action has its effect already: what that one says, this call is told."""
    action = proposal.action_id
    if effect.call.proposal_id != proposal.pk:
        return Binding(reason="policy", why=f"{action} is the operation of another call. {NEW_ACTION}")
    if effect.state == "completed":
        return Binding(proposal, repeats=effect)
    if effect.state in CLOSED_EFFECT:
        return Binding(proposal, reason="policy", why=f"{action} ended: {effect.state}. {NEW_ACTION}")
    return Binding(proposal, reason="linked", why=f"{action} is under way already ({effect.state}). Wait for it.")


@dataclass(frozen=True, slots=True)
class Running:
    """A call that runs under a dispatch: where, and under which fence."""

    call: ToolCall
    round: ToolRound
    fence: int


def running_under(tenant: UUID, dispatch: UUID) -> Running | None:
    """The call that this dispatch of the tenant is for, while its outcome is awaited."""
    c, r = reader(ToolCall, "c"), reader(ToolRound, "r")
    effects = EffectRecord._meta.db_table
    sql = f"""
        SELECT {c.columns}, {r.columns}, e.dispatch_fence FROM {effects} e
        JOIN {c.table} ON c.id = e.call_id JOIN {r.table} ON r.id = c.round_id
        WHERE e.dispatch_id = %s AND e.tenant_id = %s AND e.state = 'intent_recorded'
    """  # noqa: S608  names come from the models
    values = [prepared(EffectRecord, "dispatch_id", dispatch), prepared(EffectRecord, "tenant", tenant)]
    for row in fetch(sql, values):
        call, tool_round = split((c, r), row[:-1])
        return Running(call, tool_round, row[-1])
    return None


def repeated(effect: EffectRecord) -> dict[str, Any]:
    """The recorded outcome of a completed effect as the result of a call that repeats it."""
    recorded: dict[str, Any] | None = effect.call.result if effect.call.state == "completed" else None
    done = recorded or results.call_result("completed", executed=True, content="It was done; a receipt proves it.")
    return {**done, "replayed": True}


def problem_of(call: ToolCall, proposal: Proposal) -> str:
    """Why a call may no longer be authorised as what was reviewed; empty if it may. One that was dispatched before, and
    is to be retried, has used its proposal itself.
    """
    if proposal.state != "open" and proposal.used_by_id != call.pk:
        return f"Proposal {proposal.action_id} is {proposal.state}."
    if not _unchanged(call, proposal):
        return f"The call is not what proposal {proposal.action_id} says."
    return ""


def _unchanged(call: ToolCall, proposal: Proposal) -> bool:
    digest = canonical.digest(proposal.fields)
    same_action = (proposal.session_id, proposal.tool) == (call.session_id, call.tool)
    return same_action and digest == proposal.fields_digest == canonical.digest(call.arguments)


def may_use(change: Change, call: ToolCall) -> bool:
    """T3: whether what is dispatched still is what was reviewed, and its time is not over."""
    proposal = call.proposal
    if proposal is None:
        return True
    over = proposal.state == "open" and proposal.expires_at <= change.now
    return not over and not problem_of(call, proposal)


def use(change: Change, call: ToolCall) -> None:
    """T3: the dispatch uses the proposal up. LostRace if it is no longer open, as it was when the round was read."""
    if call.proposal is not None and call.proposal.state == "open":
        change.move(call.proposal, "used", used_by=call)


def withdraw_proposal(change: Change, call: ToolCall, why: str) -> None:
    """The call ended without a dispatch, and with it the action that it was for: it can't be asked for again."""
    proposal = call.proposal
    if proposal is None or proposal.state != "open":
        return
    if proposal.expires_at <= change.now:
        _expire(change, proposal)
        return
    change.move(proposal, "withdrawn", reason=results.clean_text(why, 500))
    change.event("proposal.withdrawn", call=call, proposal=str(proposal.id), action_id=proposal.action_id, reason=why)


def expire_proposal(session: UUID, proposal_id: UUID) -> bool:
    """Expire a proposal whose time is over and that nothing used. False: not due."""
    with transition(session) as change:
        proposal = Proposal.objects.filter(session=change.session, pk=proposal_id).first()
        if proposal is None or proposal.state != "open" or proposal.expires_at > change.now:
            return False
        _expire(change, proposal)
    return True


def _expire(change: Change, proposal: Proposal) -> None:
    change.move(proposal, "expired", reason="Nothing was dispatched under it in time.")
    change.event("proposal.expired", proposal=str(proposal.id), action_id=proposal.action_id)


def refuse_approval(call: ToolCall) -> ProposalConflict | None:
    """T2: why a reviewed call can't be approved, as a conflict; None if it can."""
    proposal = call.proposal
    problem = problem_of(call, proposal) if proposal is not None else ""
    if not problem:
        return None
    return ProposalConflict(f"{problem} It can't be approved; deny it, and let the agent propose anew.")
