"""Running what is next in an open round: T3, the tool, T4, surely (DESIGN §6).

Contiguous NONE calls that are parallel-safe run side by side; every other call is a barrier.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import structlog
from django.db import InterfaceError, OperationalError, connection

from ..contracts import Agent, Tool, ToolEffect
from ..contracts.reconciler import LOOKUP_SECONDS
from ..errors import Fenced, LostRace
from ..models import EffectRecord, Session, ToolCall
from . import adapters, clock, ids
from .dispatch import (
    Dispatch,
    Intent,
    context_for,
    front_of,
    may_replay,
    needs_intent,
    record_intent,
    record_replay,
    settle,
)
from .endings import OpenRound
from .judgement import refusal_of, tool_for
from .late import record_late
from .lease import Keeper, Lease
from .perform import Ambiguous, NotDone, Outcome, perform
from .receipted import record_verdict
from .recovery import WORKER_LOST
from .requirements import lacks, record_unable
from .routing import load_round

log = structlog.get_logger(__name__)

RETRY_SECONDS = 0.2
MAX_RACES = 20
MAX_PARALLEL = 8
REPLAY_NOT_DONE = Ambiguous(
    "replay_not_done",
    {"classification": "replay_not_done", "message": "The repeated run did not act; the first one may have."},
)
GIVEN_BACK = Ambiguous(
    "given_back",
    {"classification": "given_back", "message": "It ended in doubt, and its worker gave the session back."},
)
SETTLE_SECONDS = 600.0
TOOL_GONE = Ambiguous("tool_gone", {"classification": "tool_gone", "message": "The tool is not registered any more."})
DATABASE_AWAY = (OperationalError, InterfaceError)


def run_next(lease: Lease, keeper: Keeper, agent: Agent, session: Session, work: OpenRound) -> bool:
    """Run the next call, or the next few side by side. False: the session waits or has ended, the lease is released."""
    front = _parallel_front(agent, work)
    if len(front) > 1:
        return _run_together(lease, keeper, agent, session, work, front)
    call = next(c for c in work.calls if c.state in ("prepared", "dispatched"))
    with structlog.contextvars.bound_contextvars(call=str(call.id), tool=call.tool):
        goes_on = _run_call(lease, keeper, agent, session, work, call)
        log.info("call.held" if call.state in ("prepared", "dispatched") else "call.ended", state=call.state)
    return goes_on


def _parallel_front(agent: Agent, work: OpenRound) -> list[tuple[ToolCall, Tool]]:
    front: list[tuple[ToolCall, Tool]] = []
    for call in front_of(work):
        tool = tool_for(agent, call)
        if tool is None or not tool.spec.parallel_safe or lacks(agent, tool):
            break
        front.append((call, tool))
    return front[:MAX_PARALLEL]


def _run_together(
    lease: Lease, keeper: Keeper, agent: Agent, session: Session, work: OpenRound, front: list[tuple[ToolCall, Tool]]
) -> bool:
    contexts = [context_for(agent, session, call, None, None, tool.spec.timeout) for call, tool in front]
    with ThreadPoolExecutor(len(front)) as pool:
        running = [
            pool.submit(perform, tool, ctx, call.arguments) for (call, tool), ctx in zip(front, contexts, strict=True)
        ]
        outcomes = [future.result() for future in running]
    ended = [(call, outcome) for (call, _), outcome in zip(front, outcomes, strict=True)]
    return _settle_surely(lease, work, ended, None)


def _run_call(lease: Lease, keeper: Keeper, agent: Agent, session: Session, work: OpenRound, call: ToolCall) -> bool:
    tool = tool_for(agent, call)
    effect = work.effects.get(call.id)
    if effect is not None and effect.state == "receipted":
        return _verify(lease, keeper, agent, session, work, call, effect)
    if call.state == "dispatched":
        return _run_again(lease, keeper, agent, session, work, call, tool)
    lacking = lacks(agent, tool) if tool is not None else ""
    if lacking:
        return record_unable(lease, work, call, lacking)
    if tool is not None and not needs_intent(call, work):
        ctx = context_for(agent, session, call, None, None, tool.spec.timeout)
        return _settle_surely(lease, work, [(call, perform(tool, ctx, call.arguments))], None)
    approval = work.approvals.get(call.id)
    refusal = refusal_of(agent, session, tool, call, approval) if tool is not None else ""
    intent = _intend_surely(lease, work, call, tool, refusal)
    if intent.dispatch is None or tool is None:
        return intent.goes_on
    return _run_dispatched(lease, keeper, agent, session, work, call, tool, intent.dispatch)


def _run_dispatched(
    lease: Lease,
    keeper: Keeper,
    agent: Agent,
    session: Session,
    work: OpenRound,
    call: ToolCall,
    tool: Tool,
    dispatch: Dispatch,
) -> bool:
    """The tool, under a committed intent. An ambiguous IDEMPOTENT call is left for its one replay, which is a step of
    its own: who leaves meanwhile does not begin it.
    """
    seconds = dispatch.until - time.monotonic()
    ctx = context_for(agent, session, call, work.effects.get(call.id), dispatch, seconds)
    keeper.until(seconds)
    late = partial(_tell_late, lease, call, dispatch)
    outcome = _under(dispatch, call, perform(tool, ctx, call.arguments, late, dispatch.until))
    keeper.until(None)
    if isinstance(outcome, Ambiguous) and may_replay(call, tool):
        log.warning("call.ambiguous", dispatch=str(dispatch.dispatch_id), classification=outcome.classification)
        work.doubts[call.id] = outcome
        return True
    return _settle_surely(lease, work, [(call, outcome)], dispatch)


def _under(dispatch: Dispatch, call: ToolCall, outcome: Outcome) -> Outcome:
    """What an outcome says of the operation: a replay's "I did not do it" says nothing about the first run."""
    if isinstance(outcome, NotDone) and dispatch.replayed and call.effect_class != ToolEffect.NONE:
        return REPLAY_NOT_DONE
    return outcome


def _tell_late(lease: Lease, call: ToolCall, dispatch: Dispatch, outcome: Outcome) -> None:
    """A tool ended after it was given up. This is its own thread: nobody is left to hear an exception."""
    told = _under(dispatch, call, outcome)
    try:
        if not isinstance(told, Ambiguous):
            record_late(lease, call.id, dispatch, told)
    except Exception:
        log.exception("late_outcome.not_recorded", call=str(call.id), dispatch=str(dispatch.dispatch_id))


def _verify(
    lease: Lease,
    keeper: Keeper,
    agent: Agent,
    session: Session,
    work: OpenRound,
    call: ToolCall,
    effect: EffectRecord,
) -> bool:
    """T4b: its receipt is held, so it is verified and never run again."""
    tool = adapters.tool_of(agent, call)
    keeper.until(LOOKUP_SECONDS)
    inquiry = adapters.inquiry_of(agent, call, effect, session.session_id)
    verification = adapters.verify(tool.verifier if tool else None, inquiry)
    keeper.until(None)
    return record_verdict(lease, work, call.id, verification)


def _run_again(
    lease: Lease, keeper: Keeper, agent: Agent, session: Session, work: OpenRound, call: ToolCall, tool: Tool | None
) -> bool:
    """A call that may have been running, and which is left to be run once more: by us, by recovery, by who left."""
    effect = work.effects.get(call.id)
    if tool is None:
        return _settle_surely(lease, work, [(call, TOOL_GONE)], None)
    if effect is not None and not may_replay(call, tool):
        return _settle_surely(lease, work, [(call, WORKER_LOST)], None)
    why = work.doubts.get(call.id, WORKER_LOST if call.lost else GIVEN_BACK)
    intent = record_replay(
        lease, work, call, tool, why, refusal_of(agent, session, tool, call, work.approvals.get(call.id))
    )
    if intent.dispatch is None:
        return intent.goes_on
    return _run_dispatched(lease, keeper, agent, session, work, call, tool, intent.dispatch)


def _intend_surely(lease: Lease, work: OpenRound, call: ToolCall, tool: Tool | None, refusal: str) -> Intent:
    """T3. When its acknowledgement is lost: run only if our own dispatch stands in the rows, under our own fence."""
    dispatch_id, until = ids.new_id(), time.monotonic() + (tool.spec.timeout if tool else 0.0)
    try:
        return record_intent(lease, work, call, tool, refusal, dispatch_id, until)
    except DATABASE_AWAY as error:
        log.warning("intent.unacknowledged", error=type(error).__name__)
        connection.close()
        _reread(lease, work, [call])
        effect = work.effects.get(call.id)
        ours = Session.objects.filter(pk=lease.session, fence=lease.fence).exists()
        committed = effect is not None and effect.dispatch_id == dispatch_id
        if not (ours and committed and effect and effect.deadline and clock.now() < effect.deadline):
            raise LostRace("This call was not dispatched by us. It is read again.") from None
        return Intent(Dispatch(dispatch_id, effect.deadline, until, replayed=False), goes_on=True)


def _settle_surely(
    lease: Lease, work: OpenRound, ended: list[tuple[ToolCall, Outcome]], dispatch: Dispatch | None
) -> bool:
    """T4, tried again while the database is away. If somebody else has the session by then, or has already said what
    is true of the call, the outcome is kept as a late one.
    """
    give_up = time.monotonic() + SETTLE_SECONDS
    fresh, races, lost = True, 0, None
    while True:
        try:
            if lost is not None:
                _keep_late(lease, ended, dispatch)
                raise lost
            if not fresh:
                _reread(lease, work, [call for call, _ in ended])
                if dispatch is not None and all(_is_settled_by(dispatch, call) for call, _ in ended):
                    return True  # its receipt is held, and what is next is to verify it
            return settle(lease, work, ended)
        except (SettledAlready, Fenced) as error:
            if lost is error:
                raise
            lost = error
        except LostRace:
            races += 1
            if races > MAX_RACES:
                raise
            fresh = False  # a sibling was moved meanwhile: what this tool did still counts
        except DATABASE_AWAY as error:
            log.warning("settlement.unacknowledged", error=type(error).__name__)
            if time.monotonic() > give_up:
                raise
            fresh = False
            connection.close()
            time.sleep(RETRY_SECONDS)


def _keep_late(lease: Lease, ended: list[tuple[ToolCall, Outcome]], dispatch: Dispatch | None) -> None:
    for call, outcome in ended:
        if dispatch is not None and not isinstance(outcome, Ambiguous) and not _is_settled_by(dispatch, call):
            record_late(lease, call.id, dispatch, outcome)


def _is_settled_by(dispatch: Dispatch, call: ToolCall) -> bool:
    """Whether our own settlement stands in the rows, so that only its acknowledgement was lost."""
    receipt = EffectRecord.objects.filter(call=call.id).values_list("receipt", flat=True).first() or {}
    return (receipt.get("source"), receipt.get("dispatch_id")) == ("native", str(dispatch.dispatch_id))


class SettledAlready(LostRace):
    """Somebody settled this call while we ran it, or our own settlement had been committed."""


def _reread(lease: Lease, work: OpenRound, calls: list[ToolCall]) -> None:
    """The rows as they are now. SettledAlready when one of these calls is not open any more."""
    fresh = load_round(lease.session)
    now = {call.id: call for call in fresh.calls} if fresh else {}
    if fresh is None or any(c.id not in now or now[c.id].state not in ("prepared", "dispatched") for c in calls):
        raise SettledAlready("This call is settled already.")
    ours = {call.id: call for call in calls}
    for call in calls:
        call.__dict__.update(now[call.id].__dict__)
    work.round, work.effects, work.approvals = fresh.round, fresh.effects, fresh.approvals
    work.calls = [ours.get(call.id, call) for call in fresh.calls]
