"""The same action again: denied before, or while an equal one is uncertain (DESIGN §5).

Equal means the same action digest: tenant, tool, version, effect, effective arguments and target.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ..contracts import ToolEffect
from ..models import DispatchPause, EffectRecord, Grant, Message, Session, ToolCall
from .statements import fetch, prepared
from .transitions import Change

HELD = "An equal action is uncertain: nobody knows yet whether it happened. This one can be approved after that."
LINKED = "Meanwhile it became uncertain whether an equal action happened. Nothing was done; propose it again."


@dataclass(frozen=True, slots=True)
class Uncertain:
    """An effect of this tenant of which nobody knows whether it happened, and which nobody gave up."""

    effect: UUID
    idempotency_key: str


@dataclass(slots=True)
class Repeats:
    """What equals the actions of a new round, by action digest. `denied`: the result of the denied call.

    `grants`: the tenant has a standing grant for one of the tools that were named.
    """

    uncertain: dict[bytes, Uncertain] = field(default_factory=dict)
    denied: dict[bytes, dict[str, Any]] = field(default_factory=dict)
    grants: bool = False


def repeats_of(change: Change, calls: Sequence[ToolCall], tools: Collection[str] = ()) -> Repeats:
    """What equals these calls: uncertain effects of the tenant; calls denied here since the person's last message.

    In the same statement, whether there is a standing grant for one of `tools`.
    """
    found = Repeats()
    digests = list({call.action_digest for call in calls})
    if not digests:
        return found
    marks = ", ".join(["%s"] * len(digests))
    session = prepared(ToolCall, "session", change.session.id)
    sql = f"""
        SELECT e.action_digest, e.id, e.idempotency_key, NULL, {LIVES} FROM {_equals(marks)}
        UNION ALL
        SELECT c.action_digest, c.id, NULL, c.result, 0 FROM {ToolCall._meta.db_table} c
        WHERE c.session_id = %s AND c.state = 'denied' AND c.action_digest IN ({marks}) AND c.finished_at > (
            SELECT max(m.created_at) FROM {Message._meta.db_table} m WHERE m.session_id = %s AND m.role = 'user')
    """  # noqa: S608  names come from the models
    values = [*_moment(change), *_whose(change), *digests, session, *digests, session]
    if tools:
        named = ", ".join(["%s"] * len(tools))
        sql += f"""UNION ALL SELECT NULL, NULL, NULL, NULL, 2 FROM (SELECT 1 FROM {Grant._meta.db_table} g
            WHERE g.tenant_id = %s AND g.tool IN ({named}) AND g.revoked_at IS NULL LIMIT 1) found"""  # noqa: S608
        values += [prepared(Grant, "tenant", change.session.tenant_id), *sorted(tools)]
    for digest, row, key, result, lives in fetch(sql, values):
        if lives == 2:
            found.grants = True
        elif result is not None:
            found.denied[bytes(digest)] = json.loads(result)
        elif not lives:
            found.uncertain[bytes(digest)] = Uncertain(_uuid(row), key)
    return found


def denied_before(result: dict[str, Any]) -> str:
    """What a call is told whose equal was denied: the recorded denial."""
    return (
        f"This was asked before and is not asked again until the person writes anew. {result.get('reason', '')}".strip()
    )


def held_by(change: Change, call: ToolCall) -> EffectRecord | None:
    """T2: the uncertain effect of an equal action, which must be settled before this EXTERNAL call is approved."""
    if call.effect_class != ToolEffect.EXTERNAL:
        return None
    found = repeats_of(change, [call]).uncertain.get(call.action_digest)
    return EffectRecord.objects.get(pk=found.effect) if found else None


@dataclass(slots=True)
class Before:
    """What stands in the way of a dispatch: a pause of anything, an equal action that is uncertain, or under way."""

    paused: bool = False
    uncertain: Uncertain | None = None
    in_flight: bool = False


def before_dispatch(change: Change, call: ToolCall) -> Before:
    """T3, in one statement."""
    sql = f"""
        SELECT NULL, NULL, NULL FROM (SELECT 1 FROM {DispatchPause._meta.db_table} LIMIT 1) p
        UNION ALL
        SELECT e.id, e.idempotency_key, {LIVES} FROM {_equals("%s")}
    """  # noqa: S608
    found = Before()
    for row, key, lives in fetch(sql, [*_moment(change), *_whose(change), call.action_digest]):
        if row is None:
            found.paused = True
        elif lives:
            found.in_flight = True
        else:
            found.uncertain = Uncertain(_uuid(row), key)
    return found


def link(change: Change, effect: EffectRecord, uncertain: Uncertain) -> None:
    """T3: an IDEMPOTENT action whose equal is uncertain goes downstream under the key of that one."""
    first = EffectRecord.objects.get(pk=uncertain.effect)
    change.update(effect, idempotency_key=uncertain.idempotency_key, linked_to=first)


LIVES = "CASE WHEN e.state = 'intent_recorded' AND s.lease_until > %s THEN 1 ELSE 0 END"
"""Whether an equal action is under way in the hands of a worker that holds its session. If not, it is uncertain."""


def _equals(marks: str) -> str:
    """Effects with these digests of which nobody knows the outcome, or that another session has under way.

    The negation says nothing new, but it is the condition of the index.
    """
    return f"""{EffectRecord._meta.db_table} e JOIN {Session._meta.db_table} s ON s.id = e.session_id
        WHERE e.tenant_id = %s AND (e.state <> 'intent_recorded' OR e.session_id <> %s) AND e.action_digest IN ({marks})
        AND e.state IN ('outcome_unknown', 'manual_review', 'intent_recorded')
        AND NOT (e.state IN ('completed', 'rejected', 'abandoned')) AND e.abandoned_at IS NULL"""


def _moment(change: Change) -> list[Any]:
    return [prepared(Session, "lease_until", change.now)]


def _whose(change: Change) -> list[Any]:
    tenant = prepared(EffectRecord, "tenant", change.session.tenant_id)
    return [tenant, prepared(EffectRecord, "session", change.session.id)]


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)
