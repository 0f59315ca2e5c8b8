"""The one normal path: claim a session and go on from what its rows say, until it waits or ends (DESIGN §6)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError, connection

from .. import registry
from ..contracts import Agent
from ..errors import Fenced, LostRace
from ..models import Message, Session, ToolCall
from . import model, rounds
from .dispatch import Dispatch, context_for, needs_intent, record_intent, record_late, settle, tool_for
from .judgement import judge
from .lease import Keeper, Lease, claim, lease_length
from .perform import Ambiguous, Outcome, perform
from .recovery import recover
from .results import as_history
from .rounds import OpenRound, load_round

log = structlog.get_logger(__name__)

SLICE_SECONDS = 60.0
RETRY_SECONDS = 0.2


@dataclass(slots=True)
class Run:
    """A leased session as its holder knows it. `history` is the transcript, read once per claim."""

    lease: Lease
    keeper: Keeper
    session: Session
    agent: Agent
    work: OpenRound | None
    history: list[Any] | None = None


def run_session(session_id: UUID, owner: str) -> None:
    """Claim the session if there is anything to do, and run it until it blocks, ends, or its slice is over.

    Safe to call any number of times, for any session: the row decides.
    """
    claimed = claim(session_id, owner)
    if claimed is None:
        return
    lease = claimed.lease
    log.info("session.claimed", fence=lease.fence, after_crash=claimed.after_crash)
    with structlog.contextvars.bound_contextvars(tenant=str(lease.tenant)), Keeper(lease) as keeper:
        try:
            _go_on(lease, keeper, after_crash=claimed.after_crash)
        except Fenced:
            log.warning("session.fenced", session=str(session_id), fence=lease.fence)
        except LostRace:
            log.warning("session.lost_race", session=str(session_id), fence=lease.fence)
            _give_back(lease)


def _give_back(lease: Lease) -> None:
    """What we held in memory is outdated: let the next claim read the rows anew."""
    try:
        rounds.release_lease(lease)
    except Fenced:
        log.warning("session.fenced", session=str(lease.session), fence=lease.fence)


def _go_on(lease: Lease, keeper: Keeper, *, after_crash: bool) -> None:
    session = Session.objects.get(pk=lease.session)
    work = load_round(lease.session)
    if after_crash and not recover(lease, work):
        return
    agent = registry.find_agent(session.agent)
    if agent is None:
        text = f"Agent {session.agent!r} is not registered in this deployment."
        rounds.stop_session(lease, "model_unavailable", "model.error", error=text)
        return
    run = Run(lease, keeper, session, agent, work if work and work.round.state != "settled" else None)
    until = time.monotonic() + SLICE_SECONDS
    while _step(run):
        if time.monotonic() > until:
            rounds.release_lease(lease)
            return


def _step(run: Run) -> bool:
    """One call of the open round, or one model step. False: the session waits or has ended, the lease is released."""
    if run.work is None:
        return _model_step(run)
    call = next(c for c in run.work.calls if c.state in ("prepared", "dispatched"))
    with structlog.contextvars.bound_contextvars(call=str(call.id), tool=call.tool):
        goes_on = _run_call(run, run.work, call)
        log.info("call.ended" if call.state != "prepared" else "call.held", state=call.state)
    if run.work.round.state == "settled":
        run.work, run.history = None, None
    return goes_on


def _model_step(run: Run) -> bool:
    steps = Session.objects.values_list("steps", flat=True).get(pk=run.lease.session)
    limit = rounds.agent_limits_reached(run.agent, steps, 0)
    if limit:
        rounds.stop_session(run.lease, "limit_reached", "session.limit_reached", reason=limit)
        return False
    if run.history is None:
        bodies = Message.objects.filter(session=run.lease.session).order_by("position").values_list("body", flat=True)
        run.history = as_history(list(bodies))
    try:
        reply = model.ask(run.agent, run.history)
    except model.ModelFailed as failure:
        rounds.stop_session(run.lease, "model_unavailable", "model.error", error=failure.kind, message=failure.message)
        return False
    too_many = rounds.agent_limits_reached(run.agent, 0, len(reply.calls))
    if too_many:
        rounds.stop_session(run.lease, "limit_reached", "session.limit_reached", reason=too_many)
        return False
    judged = [judge(run.agent, run.session, call) for call in reply.calls]
    run.work = rounds.record_step(run.lease, reply.body, reply.usage, judged)
    run.history = None if run.work is None else [*run.history, reply.message]
    if run.work is not None:
        return run.work.round.state == "executing"
    return bool(judged)


def _run_call(run: Run, work: OpenRound, call: ToolCall) -> bool:
    """One call, through intent and settlement if it has an effect or a gate, else under the lease alone."""
    tool = tool_for(run.agent, call)
    dispatch: Dispatch | None = None
    if call.state == "prepared" and (tool is None or needs_intent(call, work)):
        dispatch = record_intent(run.lease, work, call, tool)
        if dispatch is None:
            return True
    if tool is None:
        outcome: Outcome = Ambiguous("tool_gone", {"classification": "tool_gone", "message": "The tool is gone."})
        return settle(run.lease, work, call, outcome)
    seconds = dispatch.seconds if dispatch else tool.spec.timeout
    ctx = context_for(run.agent, run.session, call, work.effects.get(call.id), dispatch, seconds)
    run.keeper.until(dispatch.deadline + lease_length() if dispatch else None)
    outcome = perform(tool, ctx, call.arguments)
    run.keeper.until(None)
    return _settle_surely(run, work, call, dispatch, outcome)


def _settle_surely(run: Run, work: OpenRound, call: ToolCall, dispatch: Dispatch | None, outcome: Outcome) -> bool:
    """T4, tried again while the database is away and the lease may be ours; then the next claimant decides by class."""
    give_up = time.monotonic() + lease_length().total_seconds()
    acknowledged = True
    while True:
        try:
            if not acknowledged:
                work, call = _reread(run, call)
            return settle(run.lease, work, call, outcome)
        except Fenced:
            if dispatch is not None and not isinstance(outcome, Ambiguous):
                record_late(run.lease, call.id, dispatch, outcome)
            raise
        except (OperationalError, InterfaceError) as error:
            log.warning("settlement.retried", session=str(run.lease.session), error=type(error).__name__)
            if time.monotonic() > give_up:
                raise
            acknowledged = False
            connection.close()
            time.sleep(RETRY_SECONDS)


def _reread(run: Run, call: ToolCall) -> tuple[OpenRound, ToolCall]:
    """The rows as they are now: the commit may have happened and only its acknowledgement got lost."""
    work = load_round(run.lease.session)
    current = next((c for c in work.calls if c.id == call.id), None) if work else None
    if work is None or current is None or current.state not in ("prepared", "dispatched"):
        raise LostRace("This call is settled already.")
    run.work = work
    return work, current
