"""Executing a recovery plan: rows are reclassified and the doorbell is rung; the normal path goes on (DESIGN §7).

The plan is made again under the session's lock, and carried out only if it is the very one that a person read. What has
not begun competes with dispatch on the state of its call: one of the two moves it. No model, tool or adapter is called.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ..contracts import Actor, Agent
from ..errors import AlreadyDecided, NothingToRepair, StalePlan
from ..models import Event, Session
from ..selectors.recovery import EXECUTED, executed_plan, situation_of
from . import results
from .endings import OpenRound, fail_undone
from .plan import Plan, plan_of
from .recovery import reclassify
from .routing import load_round, obey_stop, place_session, settle_round
from .transitions import Change, transition

WHY = "It had not begun when the session was recovered. Nothing was done."


@dataclass(frozen=True, slots=True)
class Executed:
    """The record of a plan that was carried out. `made`: how many of each kind of repair. `replay`: it had been before,
    by this person.
    """

    session: Session
    digest: str
    status: str
    made: dict[str, int]
    by: str
    by_name: str
    reason: str
    at: datetime
    seq: int
    replay: bool = False


def execute(session: UUID, tenant: UUID, digest: str, actor: Actor, reason: str, agent: Agent | None) -> Executed:
    """Carry out the plan with this digest, if it still is the session's.

    The same plan again by the same person returns its record. Otherwise nothing is changed: StalePlan (it is another
    one by now), AlreadyDecided (somebody else executed it), NothingToRepair (it has no repair).
    """
    said = results.clean_text(reason, 500)
    with transition(session, tenant=tenant) as change:
        plan = plan_of(situation_of(change.session), change.now, agent)
        if plan.digest != digest:
            return _recorded(change.session, digest, actor)
        if not plan.repairs:
            raise NothingToRepair(f"There is nothing to repair in this session ({plan.status}). {plan.says}")
        made = dict(sorted(Counter(repair.kind for repair in plan.repairs).items()))
        change.event(
            EXECUTED,
            plan=digest,
            status=plan.status,
            repairs=made,
            by=actor.subject,
            by_name=actor.name,
            source=actor.source,
            reason=said,
        )
        seq = change.session.last_seq
        _repair(change, plan, agent)
    row = change.session
    return Executed(row, digest, plan.status, made, actor.subject, actor.name, said, change.now, seq)


def _recorded(session: Session, digest: str, actor: Actor) -> Executed:
    record = executed_plan(session, digest)
    if record is None:
        raise StalePlan("The session is not as this plan says any more. Nothing was done; read the plan again.")
    executed = _read(session, record)
    if executed.by != actor.subject:
        winner = {"by": executed.by_name, "at": executed.at.isoformat()}
        when = f"{executed.at:%Y-%m-%d %H:%M:%S} UTC"
        raise AlreadyDecided(f"{executed.by_name} executed this plan at {when}. Read the plan again.", winner=winner)
    return executed


def _read(session: Session, record: Event) -> Executed:
    said = record.payload
    made: dict[str, int] = said["repairs"]
    who = (said["by"], said["by_name"], said["reason"])
    return Executed(session, said["plan"], said["status"], made, *who, record.at, record.seq, replay=True)


def _repair(change: Change, plan: Plan, agent: Agent | None) -> None:
    session = change.session
    if session.state == "interrupting":
        change.set(fence=session.fence + 1)
        obey_stop(change)
        return
    work = load_round(session.id)
    if session.state == "running":
        change.set(fence=session.fence + 1)
        if work is not None:
            reclassify(change, agent, work)
    if work is not None:
        _settle_prepared(change, plan, work)
        settle_round(change, work.round, work.calls)
    place_session(change, {call.state for call in work.calls} if work else set())
    if session.state == "running":
        change.session_to("pending", runnable_at=change.now)
    if session.state == "pending":
        change.set(runnable_at=change.now)
        change.wake()


def _settle_prepared(change: Change, plan: Plan, work: OpenRound) -> None:
    wanted = {repair.call.pk for repair in plan.repairs if repair.kind == "settle_prepared" and repair.call}
    for call in [call for call in work.calls if call.pk in wanted]:
        fail_undone(change, call, work.effects.get(call.pk), work.approvals.get(call.pk), "recovered", WHY)
