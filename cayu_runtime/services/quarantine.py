from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from .. import authority
from ..contracts import Actor
from ..core import clock, ids, results
from ..core.quarantine import Taken, quarantine_session
from ..core.reconciliation import last_arrival
from ..errors import Conflict, InvalidRequest, LostRace, NotFound, NotPermitted, NotResumable
from ..models import DispatchPause, EffectRecord, Quarantine, Tenant
from ..selectors.quarantine import (
    newest_record,
    open_quarantine,
    sessions_to_take,
    still_unknown,
    stopped_sessions,
    was_stopped_by_quarantine,
)
from .audit import record
from .effect import Seen, executor_of, look_up_effect
from .pause import wake_held
from .session import resume_session

BATCH = 200
SHOWN = 20
SAYS = "Quarantine after a restored backup: {}"


@dataclass(slots=True)
class Batch:
    """What one batch did: sessions gone through, those it stopped, effects it made uncertain. `whole`: it was the
    last.
    """

    seen: int = 0
    stopped: int = 0
    effects: int = 0
    whole: bool = False


@dataclass(slots=True)
class Looked:
    """What lookups led to. `states`: how many effects are in which state now. `refused`: those that could not be looked
    up, with the reason. `again_at`: from when on an absence that was seen will count.
    """

    states: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[EffectRecord, str]] = field(default_factory=list)
    again_at: datetime | None = None
    cursor: UUID | None = None


def start_quarantine(actor: Actor, *, reason: str, tenant: Tenant | None = None, again: bool = False) -> Quarantine:
    """Close dispatch for this tenant, or (None) for all, because the database was restored from a backup.

    One that is open already is returned as it is, so that it goes on where it was broken off; with `again` (another
    backup was restored since) it begins anew. InvalidRequest without a reason; NotPermitted by the authority.
    """
    authority.require(actor, "quarantine", tenant)
    said = results.clean_text(reason, 450)
    if not said:
        raise InvalidRequest("Say why dispatch is closed: those who wait will read it.")
    try:
        return _start(actor, said, tenant, again=again)
    except IntegrityError:
        standing = open_quarantine(tenant)
        if standing is None:
            raise
        return standing  # somebody else began it at this moment


def _start(actor: Actor, said: str, tenant: Tenant | None, *, again: bool) -> Quarantine:
    with transaction.atomic():
        standing = open_quarantine(tenant)
        if standing is not None and not again:
            return standing
        newest, now = newest_record(), clock.now()
        if standing is not None:
            standing.pause.delete()
        made = Quarantine(
            id=ids.new_id(),
            tenant=tenant,
            reason=said,
            started_by=actor.subject,
            started_by_name=actor.name,
            started_at=now,
            newest_record_at=newest,
        )
        made.save(force_insert=True)
        DispatchPause(
            id=ids.new_id(),
            tenant=tenant,
            reason=SAYS.format(said),
            created_by=actor.name,
            created_at=now,
            quarantine=made,
        ).save(force_insert=True)
    record(None if tenant is None else tenant.pk, "quarantine.started", actor, quarantine=str(made.pk), reason=said)
    return made


def take_sessions(actor: Actor, quarantine: Quarantine, limit: int = BATCH) -> Batch:
    """Go through the next sessions, each in a transaction of its own. Every open effect becomes uncertain, what was
    approved is void, the session stops. Where it got to is kept, so it may be broken off and called again.
    """
    authority.require(actor, "quarantine", quarantine.tenant)
    batch = Batch()
    if quarantine.taken_at is not None:
        batch.whole = True
        return batch
    for session in sessions_to_take(quarantine, limit):
        taken = _take(session, quarantine, actor)
        batch.seen += 1
        batch.stopped += taken.stopped
        batch.effects += taken.effects
        quarantine.cursor = session
    batch.whole = batch.seen < limit
    if batch.whole:
        quarantine.taken_at = clock.now()
    # somebody else who does the same may have come to the end before us: then that stands
    row = Quarantine.objects.filter(pk=quarantine.pk, taken_at=None)
    row.update(cursor=quarantine.cursor, taken_at=quarantine.taken_at)
    return batch


def _take(session: UUID, quarantine: Quarantine, actor: Actor) -> Taken:
    """A worker that still runs may move a row between our reading and writing it; it can't twice, being fenced off."""
    try:
        return quarantine_session(session, quarantine, actor)
    except LostRace:
        return quarantine_session(session, quarantine, actor)


def look_up_quarantined(
    tenant: Tenant, actor: Actor, *, reason: str, after: UUID | None = None, limit: int = BATCH
) -> Looked:
    """Look the next quarantined effects up, each under its stored key (as `look_up_effect`: nothing is dispatched).

    `after` is the cursor of the last batch; there is none when all have been asked about. An effect that can't be
    looked up is told with the reason, and does not keep the others from it.
    """
    looked = Looked()
    effects = still_unknown(tenant, after, limit)
    for effect in effects:
        looked.cursor = effect.pk
        try:
            seen = Seen(effect.revision, effect.dispatch_id)
            outcome = look_up_effect(tenant, actor, effect.pk, seen, reason=reason)
        except (Conflict, NotPermitted, NotFound) as error:
            looked.refused.append((effect, error.message))
            continue
        looked.states[outcome.effect.state] += 1
        said = (outcome.attempt.evidence or {}).get("said")
        if outcome.finding == "not_found" and said == "absent":
            until = last_arrival(outcome.effect, executor_of(outcome.effect).slowest)
            looked.again_at = max(filter(None, (looked.again_at, until)), default=None)
    if len(effects) < limit:
        looked.cursor = None
    return looked


def left_unknown(tenants: list[Tenant], limit: int = SHOWN + 1) -> list[EffectRecord]:
    """What keeps a quarantine closed, the first of it: quarantined effects of which still nobody knows the outcome."""
    found: list[EffectRecord] = []
    for tenant in tenants:
        found += still_unknown(tenant, limit=limit - len(found))
        if len(found) >= limit:
            break
    return found


def release_quarantine(
    actor: Actor, quarantine: Quarantine, tenants: list[Tenant], *, reason: str, leave: frozenset[UUID] = frozenset()
) -> int:
    """Open dispatch again. Returns how many waiting sessions were woken.

    Conflict while sessions are still to be gone through, or a quarantined effect is unknown that `leave` does not name;
    what is left stays unknown, so it is not dispatched either. InvalidRequest without a reason, or for a name in
    `leave` that is none of them. Sessions that were stopped stay stopped: see `resume_stopped`.
    """
    authority.require(actor, "quarantine", quarantine.tenant)
    said = results.clean_text(reason, 500)
    if not said:
        raise InvalidRequest("Say why dispatch may be opened again; it stays on record.")
    if quarantine.taken_at is None:
        raise Conflict("Not every session was gone through. Run `recovery quarantine` again; it goes on where it was.")
    unknown = left_unknown(tenants, limit=SHOWN + 1 + len(leave))
    holding = [effect for effect in unknown if effect.pk not in leave]
    if holding:
        shown = ", ".join(str(effect.pk) for effect in holding[:SHOWN])
        raise Conflict(
            f"Still unknown, and so dispatch stays closed: {shown}{' and more' if len(holding) > SHOWN else ''}. Look "
            "them up (`recovery quarantine` asks again, the page To reconcile one by one), or name each with --leave.",
            unknown=[str(effect.pk) for effect in holding],
        )
    others = leave - {effect.pk for effect in unknown}
    if others:
        raise InvalidRequest(f"--leave names what is not quarantined and unknown: {', '.join(map(str, others))}.")
    with transaction.atomic():
        if DispatchPause.objects.filter(quarantine=quarantine).delete()[0] != 1:
            raise Conflict("This quarantine was released already.")
        quarantine.released_at = clock.now()
        quarantine.released_by, quarantine.release_reason = actor.subject, said
        quarantine.save(update_fields=["released_at", "released_by", "release_reason"])
    about = {"quarantine": str(quarantine.pk), "reason": said, "left": sorted(map(str, leave))}
    record(quarantine.tenant_id, "quarantine.released", actor, **about)
    return wake_held(quarantine.tenant)


def resume_stopped(
    actor: Actor, quarantine: Quarantine, *, reason: str, after: UUID | None = None, limit: int = BATCH
) -> tuple[int, list[tuple[str, str]], UUID | None]:
    """Let the next sessions go on that this quarantine stopped, as `resume_session` does for one.

    Returns how many, those that were refused with the reason, and the cursor of the next batch (None: that was all).
    """
    sessions = stopped_sessions(quarantine, after, limit)
    resumed, refused = 0, []
    for session in sessions:
        if not was_stopped_by_quarantine(session):
            continue
        try:
            acting = Actor(actor.subject, actor.name, session.tenant_id, actor.source, actor.roles)
            resume_session(session.tenant, acting, session.session_id, reason=reason)
            resumed += 1
        except (NotPermitted, NotResumable, LostRace) as error:
            refused.append((session.session_id, error.message))
    return resumed, refused, sessions[-1].pk if len(sessions) == limit else None
