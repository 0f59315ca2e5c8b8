"""The one normal path: claim a session and go on from what its rows say, until it waits or ends (DESIGN §6)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog

from .. import registry
from ..contracts import Agent, ModelError
from ..errors import Fenced, LostRace
from ..models import Message, Session, Tenant
from . import backoff, execution, hints, model
from .endings import OpenRound
from .judgement import JudgedCall, judge
from .lease import Claim, Keeper, Lease, claim
from .limits import NO_LIMITS, TenantLimits, call_limit_reached, step_limit_reached
from .recovery import recover
from .results import as_history
from .rounds import record_step
from .routing import load_round, release_lease, settle_leftover, stop_session
from .secrets import without_raw_calls
from .statements import fetch, prepared

log = structlog.get_logger(__name__)

SLICE_SECONDS = 60.0
POLICY_SECONDS = 30.0
# Another worker may know it: a newer build, while an older one leaves.
UNKNOWN_AGENT_SECONDS = 30.0


@dataclass(slots=True)
class Run:
    """A leased session as its holder knows it. `history` is its transcript, `limits` what its tenant allows; both are
    read once per claim.
    """

    lease: Lease
    keeper: Keeper
    session: Session
    agent: Agent
    work: OpenRound | None
    history: list[Any] | None = None
    limits: TenantLimits = NO_LIMITS


def run_session(session_id: UUID, owner: str, should_yield: Callable[[], bool] = lambda: False) -> bool:
    """Claim the session if there is anything to do, and run it until it blocks, ends, or its slice is over.

    Safe to call any number of times, for any session: the row decides. `should_yield` is asked before each step; True
    gives the session back as runnable at once. Returns whether there was anything to claim.
    """
    claimed = claim(session_id, owner)
    if claimed is None:
        return False
    lease = claimed.lease
    log.info("session.claimed", fence=lease.fence, after_crash=claimed.after_crash)
    with structlog.contextvars.bound_contextvars(tenant=str(lease.tenant)), Keeper(lease) as keeper:
        try:
            _go_on(claimed, keeper, should_yield)
        except Fenced:
            log.warning("session.fenced", session=str(session_id), fence=lease.fence)
        except LostRace:
            log.warning("session.lost_race", session=str(session_id), fence=lease.fence)
            _give_back(lease)
    return True


def _give_back(lease: Lease) -> None:
    """What we held in memory is outdated: let the next claim read the rows anew."""
    try:
        release_lease(lease)
    except Fenced:
        log.warning("session.fenced", fence=lease.fence)


def _go_on(claimed: Claim, keeper: Keeper, should_yield: Callable[[], bool]) -> None:
    lease, session = claimed.lease, claimed.session
    agent = registry.find_agent(session.agent)
    work = load_round(lease.session) if session.rounds else None
    if claimed.after_crash:
        if not recover(lease, agent, work):
            return
        if work is not None and work.round.state == "settled":
            work = None
    if work is not None and not any(call.state in ("prepared", "dispatched") for call in work.calls):
        if not settle_leftover(lease, work):
            return
        work = None if work.round.state == "settled" else work
    if agent is None:
        text = f"Agent {session.agent!r} is not registered in this worker."
        error = ModelError("unknown_agent", text, retryable=True, retry_after=UNKNOWN_AGENT_SECONDS)
        backoff.record_failure(lease, model.ModelFailed([(session.agent, error)]))
        return
    run = Run(lease, keeper, session, agent, work)
    until = time.monotonic() + SLICE_SECONDS
    goes_on = True
    while goes_on:
        if should_yield() or time.monotonic() > until:
            release_lease(lease)
            return
        goes_on = _step(run)


def _step(run: Run) -> bool:
    """What is next of the open round, or one model step. False: the session waits or has ended, the lease is
    released.
    """
    if run.work is None:
        return _model_step(run)
    work = run.work
    goes_on = execution.run_next(run.lease, run.keeper, run.agent, run.session, work)
    if work.round.state == "settled":
        _append_results(run, work)
    return goes_on


def _append_results(run: Run, work: OpenRound) -> None:
    run.work = None
    if run.history is not None:
        run.history.extend(as_history([work.results]))


def _model_step(run: Run) -> bool:
    if run.history is None:
        bodies, run.limits = _transcript(run.lease.session)
        run.history = as_history(bodies)
    limit = step_limit_reached(run.agent, run.limits, run.session.steps)
    if limit:
        stop_session(run.lease, "limit_reached", "session.limit_reached", reason=limit)
        return False
    run.keeper.until(model.longest(run.agent) + POLICY_SECONDS)
    try:
        reply = model.ask(run.agent, run.history, hints.teller(run.lease, run.session.steps))
    except model.ModelFailed as failure:
        backoff.record_failure(run.lease, failure)
        return False
    too_many = call_limit_reached(run.agent, len(reply.calls))
    if too_many:
        stop_session(run.lease, "limit_reached", "session.limit_reached", reason=too_many)
        return False
    judged = [judge(run.agent, run.session, call) for call in reply.calls]
    body, message = _storable(reply, judged)
    recorded = record_step(run.lease, body, reply.said, judged, run.limits.pending_approvals)
    run.keeper.until(None)
    run.session.steps += 1
    run.history.append(message)
    run.work = recorded.work
    if run.work is not None and run.work.round.state == "settled":
        _append_results(run, run.work)
    return recorded.goes_on


def _transcript(session: UUID) -> tuple[list[Any], TenantLimits]:
    """The session's messages, and with the same statement what its tenant allows."""
    sql = f"""
        SELECT m.body, t.max_steps, t.max_pending_approvals
        FROM {Message._meta.db_table} m JOIN {Tenant._meta.db_table} t ON t.id = m.tenant_id
        WHERE m.session_id = %s ORDER BY m.position
    """  # noqa: S608  names come from the models
    rows = fetch(sql, [prepared(Message, "session", session)])
    limits = TenantLimits(*rows[0][1:]) if rows else NO_LIMITS
    return [json.loads(row[0]) for row in rows], limits


def _storable(reply: model.Step, judged: Sequence[JudgedCall]) -> tuple[Any, Any]:
    """The model's message for the transcript and for the history in memory, without what may not be stored."""
    kept = {call.proposed.call_id: call.arguments for call in judged if call.masked}
    if not kept:
        return reply.body, reply.message
    body = without_raw_calls(reply.body, kept, frozenset().union(*(call.raw for call in judged)))
    return body, as_history([body])[0]
