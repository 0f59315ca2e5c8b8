"""What a recovery plan is made from, read for a page of sessions with a handful of statements."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ..core.states import CLOSED_EFFECT, OPEN_ROUND
from ..models import (
    Approval,
    Attempt,
    DispatchPause,
    EffectRecord,
    Event,
    Question,
    Session,
    Tenant,
    ToolCall,
    ToolRound,
)
from .pause import pauses_in

PAGE = 100
ENDED = ("completed", "failed")
EXECUTED = "recovery.plan.executed"
HEAVY = ("arguments", "proposed_arguments", "result")


@dataclass(slots=True)
class Situation:
    """A session as its rows say it is: its open round, if there is one, and what belongs to the calls of it.

    `effects`, `approvals` and `questions` are keyed by call, `attempts` by effect: how often each kind was tried.
    `doubts` are open effects of a session that has ended. `pauses` stand in its tenant.
    """

    session: Session
    round: ToolRound | None = None
    calls: list[ToolCall] = field(default_factory=list)
    effects: dict[uuid.UUID, EffectRecord] = field(default_factory=dict)
    approvals: dict[uuid.UUID, Approval] = field(default_factory=dict)
    questions: dict[uuid.UUID, Question] = field(default_factory=dict)
    doubts: list[EffectRecord] = field(default_factory=list)
    attempts: dict[uuid.UUID, Counter[str]] = field(default_factory=dict)
    pauses: Sequence[DispatchPause] = ()


def situation_of(session: Session) -> Situation:
    (only,) = situations_of(session.tenant, [session])
    return only


def situations_of(tenant: Tenant, sessions: Sequence[Session]) -> list[Situation]:
    """One for each of these sessions of the tenant, in their order."""
    found = {session.pk: Situation(session) for session in sessions}
    _add_rounds(found)
    _add_doubts(found)
    effects = [effect for one in found.values() for effect in (*one.effects.values(), *one.doubts)]
    tried = _attempts_on(effect.pk for effect in effects if effect.state not in CLOSED_EFFECT)
    pauses = pauses_in(tenant)
    for one in found.values():
        one.pauses = pauses
        one.attempts = {e.pk: tried[e.pk] for e in (*one.effects.values(), *one.doubts) if e.pk in tried}
    return list(found.values())


def open_sessions(
    tenant: Tenant, after: uuid.UUID | None = None, limit: int = PAGE, before: datetime | None = None
) -> list[Session]:
    """A page of sessions that have not ended, the oldest first; `after` is the last row's id. With `before`, only those
    of which no row moved since then.
    """
    rows = Session.objects.filter(tenant=tenant).exclude(state__in=ENDED)
    if after is not None:
        rows = rows.filter(pk__gt=after)
    if before is not None:
        rows = rows.filter(updated_at__lte=before)
    return list(rows.order_by("pk")[:limit])


def executed_plan(session: Session, digest: str) -> Event | None:
    """The record of a plan of this session that was executed; None if it never was."""
    records = Event.objects.filter(session=session, type=EXECUTED).order_by("-seq")
    return next((record for record in records if record.payload.get("plan") == digest), None)


def _add_rounds(found: dict[uuid.UUID, Situation]) -> None:
    rounds = ToolRound.objects.filter(session__in=found, state__in=OPEN_ROUND).in_bulk()
    if not rounds:
        return
    rows = ToolCall.objects.filter(round__in=rounds).select_related("effect")
    for call in rows.defer(*HEAVY, "effect__receipt", "effect__verification_evidence").order_by("round", "position"):
        one = found[call.session_id]
        one.round = rounds[call.round_id]
        one.calls.append(call)
        effect = getattr(call, "effect", None)
        if effect is not None:
            one.effects[call.pk] = effect
    calls = [call.pk for one in found.values() for call in one.calls]
    for approval in Approval.objects.filter(call__in=calls, state__in=("pending", "approved")):
        found[approval.session_id].approvals[approval.call_id] = approval
    asked = [call.pk for one in found.values() for call in one.calls if call.state == "awaiting_answer"]
    if asked:
        for question in Question.objects.filter(call__in=asked, state="pending"):
            found[question.session_id].questions[question.call_id] = question


def _add_doubts(found: dict[uuid.UUID, Situation]) -> None:
    ended = [one.session.pk for one in found.values() if one.session.state in ENDED]
    if not ended:
        return
    rows = EffectRecord.objects.filter(session__in=ended).exclude(state__in=CLOSED_EFFECT).select_related("call")
    for effect in rows.defer(*(f"call__{name}" for name in HEAVY)).order_by("created_at", "pk"):
        found[effect.session_id].doubts.append(effect)


def _attempts_on(effects: Iterable[uuid.UUID]) -> dict[uuid.UUID, Counter[str]]:
    tried: dict[uuid.UUID, Counter[str]] = {}
    ids = list(effects)
    if ids:
        for effect, kind in Attempt.objects.filter(effect__in=ids).values_list("effect_id", "kind"):
            tried.setdefault(effect, Counter())[kind] += 1
    return tried
