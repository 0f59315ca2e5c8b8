"""Where a session goes when calls of its open round have moved, and what a stop does to them (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from ..models import Approval, Decision, EffectRecord, Message, Proposal, Session, ToolCall, ToolRound
from . import results
from .endings import OpenRound, give_up_dispatched, withdraw
from .lease import Lease
from .statements import Reader, fetch, prepared, reader, split
from .states import CLOSED_CALL, LEASED
from .transitions import Change, transition


def load_round(session: UUID) -> OpenRound | None:
    """The open round of a session, read once per claim."""
    work: OpenRound | None = None
    for row in fetch(_round_statement(), [prepared(ToolRound, "session", session)]):
        open_round, call, effect, approval, decision, proposal = split(_round_readers(), row)
        work = work or OpenRound(open_round, [])
        work.calls.append(call)
        call.proposal = proposal
        if effect is not None:
            work.effects[call.id] = effect
        if approval is not None:
            approval.call, approval.decided_by = call, decision
            work.approvals[call.id] = approval
    return work


def _round_readers() -> tuple[Reader[Any], ...]:
    models = (ToolRound, ToolCall, EffectRecord, Approval, Decision, Proposal)
    return tuple(map(reader, models, "rceadp"))


@lru_cache(maxsize=1)
def _round_statement() -> str:
    """The open round with its calls in order, each with its effect, its proposal, its live approval and who decided."""
    r, c, e, a, d, p = _round_readers()
    return f"""
        SELECT {r.columns}, {c.columns}, {e.columns}, {a.columns}, {d.columns}, {p.columns}
        FROM {r.table} JOIN {c.table} ON c.round_id = r.id
        LEFT JOIN {e.table} ON e.call_id = c.id
        LEFT JOIN {a.table} ON a.call_id = c.id AND a.state IN ('pending', 'approved')
        LEFT JOIN {d.table} ON d.id = a.decided_by_id
        LEFT JOIN {p.table} ON p.id = c.proposal_id
        WHERE r.session_id = %s AND r.state IN ('waiting', 'executing') ORDER BY c.position
    """  # noqa: S608  names come from the models


def route(change: Change, work: OpenRound) -> None:
    """The holder's end of each write: obey a stop, settle the round or let it execute, put the session where that
    leaves it.
    """
    if change.session.state == "interrupting":
        withdraw(change, work)
    work.results = settle_round(change, work.round, work.calls)
    place_session(change, {call.state for call in work.calls})


def settle_round(change: Change, row: ToolRound, calls: Sequence[ToolCall]) -> Any:
    """After calls of a round moved: it executes when nobody is waited for, and is settled with the last of them.

    Returns the transcript entry with the results when it was settled here, else None.
    """
    states = {call.state for call in calls}
    if states <= set(CLOSED_CALL) and row.state != "settled":
        body = results.results_message(calls, change.now)
        add_message(change, "tools", body)
        change.move(row, "settled")
        return body
    if row.state == "waiting" and not states & {"awaiting_approval", "awaiting_answer"}:
        change.move(row, "executing")
    return None


def place_session(change: Change, call_states: set[str]) -> None:
    """Put the session where the states of its open round's calls leave it."""
    session = change.session
    interruption = interruption_of(session, call_states)
    if interruption is not None:
        if session.state != "interrupted" or session.interruption != interruption:
            change.session_to("interrupted", interruption=interruption)
            change.event("session.interrupted", interruption=interruption)
    elif session.state == "interrupted":
        change.session_to("pending", runnable_at=change.now)
        change.event("session.resumed")
        change.wake()


def interruption_of(session: Session, call_states: set[str]) -> str | None:
    """Why this session waits, given the states of its open round's calls: the first that applies (DESIGN §3)."""
    if "outcome_unknown" in call_states:
        return "effect_outcome_unknown"
    if "awaiting_answer" in call_states:
        return "user_input_required"
    if "awaiting_approval" in call_states:
        return "approval_required"
    if session.client_driven:
        return "client_execution"
    return session.stopped_by


def go_on(change: Change, work: OpenRound) -> None:
    """A person's end of each write: settle the round if that was its last call. A session that a worker holds is moved
    on by that worker.
    """
    settle_round(change, work.round, work.calls)
    if change.session.state not in LEASED:
        place_session(change, {call.state for call in work.calls})


def add_message(change: Change, role: str, body: Any) -> None:
    session = change.session
    position = change.next("messages")
    row = Message(
        tenant_id=session.tenant_id, session=session, position=position, role=role, body=body, created_at=change.now
    )
    change.add(row)


def stop_session(lease: Lease, why: str, kind: str, **payload: Any) -> None:
    """The holder gives the session up for a reason that a person or a new message lifts (`limit_reached`, …)."""
    with transition(lease.session, fence=lease.fence) as change:
        change.event(kind, **payload)
        change.session_to("interrupted", interruption=why, stopped_by=why)
        change.event("session.interrupted", interruption=why)


def release_lease(lease: Lease) -> None:
    """Give a session back as runnable at once: the slice is over, or the worker stops."""
    with transition(lease.session, fence=lease.fence) as change:
        if change.session.state == "interrupting":
            obey_stop(change)
        else:
            change.session_to("pending", runnable_at=change.now)
            change.wake()


def obey_stop(change: Change) -> None:
    """Interrupt a session whose stop was asked for and which nobody runs any more."""
    work = load_round(change.session.id)
    if work is None:
        place_session(change, set())
    else:
        give_up_dispatched(change, work)
        route(change, work)


def settle_leftover(lease: Lease, work: OpenRound) -> bool:
    """Finish a round of which somebody else ended the last call. False: the session now waits for someone."""
    with transition(lease.session, fence=lease.fence) as change:
        route(change, work)
        return change.session.state == "running"


def request_stop(change: Change) -> None:
    """Stop a session: at once where nobody holds it, else by the holder's next write."""
    session = change.session
    change.set(stopped_by="operator_requested", model_failures=0)
    if session.state == "running":
        change.session_to("interrupting")
    elif session.state != "interrupting":
        work = load_round(session.id)
        if work is not None:
            give_up_dispatched(change, work)
            withdraw(change, work)
            settle_round(change, work.round, work.calls)
        place_session(change, {call.state for call in work.calls} if work else set())
