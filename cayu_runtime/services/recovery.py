"""Getting a session out of where it is stuck: read what is in the way, then carry out exactly that (DESIGN §7)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from .. import authority, registry
from ..contracts import Actor
from ..core import clock, repair
from ..core.plan import Plan, plan_of
from ..core.repair import Executed
from ..core.results import visible
from ..errors import CayuError, InvalidRequest, NotFound
from ..models import Session, Tenant
from ..selectors.recovery import PAGE, open_sessions, situation_of, situations_of
from ..selectors.session import find_session

SETTLED_SECONDS = 900.0
MAX_SETTLED_SECONDS = 31_536_000


@dataclass(frozen=True, slots=True)
class Page:
    """Plans of some sessions of a tenant. `after`: where the next page begins; None on the last one."""

    plans: list[Plan]
    after: uuid.UUID | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one session. `code` is `done`, `left` (its plan has no repair), or the code of the refusal, whose
    sentence is `message`.
    """

    plan: Plan
    code: str
    message: str
    executed: Executed | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """One page of a sweep, with an answer for each session. `after`: where the next page begins; None at the end."""

    answers: list[Answer]
    after: uuid.UUID | None


def plan_recovery(tenant: Tenant, session_id: str) -> Plan:
    """What stands in the way of a session and what can be repaired. Changes nothing, calls nothing. NotFound."""
    session = _find(tenant, session_id)
    return plan_of(situation_of(session), clock.now(), registry.find_agent(session.agent))


def execute_recovery(tenant: Tenant, actor: Actor, session_id: str, *, digest: str, reason: str) -> Executed:
    """Carry out the plan that this person read, named by its digest (64 hexadecimal digits), if it still is the
    session's. It runs no tool, model or adapter; workers go on from the rows.

    The same plan again by the same person returns its record (`replay`). Raises NotFound, NotPermitted,
    InvalidRequest, or a Conflict that changed nothing: StalePlan, AlreadyDecided (who executed it), NothingToRepair.
    """
    session = _find(tenant, session_id)
    authority.require(actor, "recover_session", session)
    _require_reason(reason)
    try:
        wanted = bytes.fromhex(digest).hex()
    except ValueError:
        wanted = ""
    if len(wanted) != 64:
        raise InvalidRequest("The digest must be the plan's 64 hexadecimal digits. Read the plan, and send its digest.")
    return _execute(session, actor, wanted, reason)


def plan_page(tenant: Tenant, *, after: uuid.UUID | None = None, limit: int = PAGE, settled: float = 0.0) -> Page:
    """Plans of the tenant's sessions that have not ended, oldest first, those alone in which nothing moved for
    `settled` seconds. `after` is that of the page before.

    Read with a handful of statements, whatever the number of sessions. InvalidRequest for a page of less than 1 or more
    than PAGE sessions, or a time that is none.
    """
    if not 1 <= limit <= PAGE:
        raise InvalidRequest(f"A page has between 1 and {PAGE} sessions.")
    if not 0 <= settled <= MAX_SETTLED_SECONDS:
        raise InvalidRequest(f"Say for how many seconds nothing may have moved: 0 to {MAX_SETTLED_SECONDS}.")
    now = clock.now()
    found = open_sessions(tenant, after, limit + 1, before=now - timedelta(seconds=settled) if settled else None)
    rows = found[:limit]
    plans = [plan_of(one, now, registry.find_agent(one.session.agent)) for one in situations_of(tenant, rows)]
    return Page(plans, rows[-1].pk if len(found) > limit else None)


def sweep(
    tenant: Tenant,
    actor: Actor,
    *,
    reason: str,
    after: uuid.UUID | None = None,
    limit: int = PAGE,
    settled: float = SETTLED_SECONDS,
) -> Swept:
    """Plan one page of sessions as `plan_page` does, and execute each plan that has repairs: one transaction for each
    session, an answer for each. A session that moves meanwhile is left alone, and its answer says so.

    Broken off and begun again at the same `after` it repeats nothing: what was repaired has nothing left to repair.
    What was authorised a moment ago is no wreck, which is what `settled` seconds are for. Raises as `plan_page`,
    NotPermitted for who may not view the tenant, and InvalidRequest without a reason.
    """
    authority.require(actor, "view", tenant)
    _require_reason(reason)
    page = plan_page(tenant, after=after, limit=limit, settled=settled)
    return Swept([_answer(plan, actor, reason) for plan in page.plans], page.after)


def _answer(plan: Plan, actor: Actor, reason: str) -> Answer:
    if not plan.repairs:
        return Answer(plan, "left", plan.says)
    try:
        authority.require(actor, "recover_session", plan.session)
        executed = _execute(plan.session, actor, plan.digest, reason)
    except CayuError as refusal:
        return Answer(plan, refusal.code, refusal.message)
    return Answer(plan, "done", "", executed)


def _execute(session: Session, actor: Actor, digest: str, reason: str) -> Executed:
    agent = registry.find_agent(session.agent)
    return repair.execute(session.pk, session.tenant_id, digest, actor, reason, agent)


def _find(tenant: Tenant, session_id: str) -> Session:
    found = find_session(tenant, session_id)
    if found is None:
        raise NotFound("There is no such session.")
    return found


def _require_reason(reason: str) -> None:
    if not visible(reason):
        raise InvalidRequest("Say why: recovering a session needs a reason, which stays on record.")
