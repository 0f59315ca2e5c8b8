"""The same action again: denied before, or while an equal one is uncertain (DESIGN §5).

Equal means the same action digest: tenant, tool, version, effect, effective arguments and target.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ..contracts import ToolEffect
from ..models import DispatchPause, EffectRecord, Message, ToolCall
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
    """What equals the actions of a new round, by action digest. `denied`: the result of the denied call."""

    uncertain: dict[bytes, Uncertain] = field(default_factory=dict)
    denied: dict[bytes, dict[str, Any]] = field(default_factory=dict)


def repeats_of(change: Change, calls: Sequence[ToolCall]) -> Repeats:
    """What equals these calls: uncertain effects of the tenant; calls denied here since the person's last message."""
    found = Repeats()
    digests = list({call.action_digest for call in calls})
    if not digests:
        return found
    marks = ", ".join(["%s"] * len(digests))
    session = prepared(ToolCall, "session", change.session.id)
    sql = f"""
        SELECT e.action_digest, e.id, e.idempotency_key, NULL FROM {_uncertain(marks)}
        UNION ALL
        SELECT c.action_digest, c.id, NULL, c.result FROM {ToolCall._meta.db_table} c
        WHERE c.session_id = %s AND c.state = 'denied' AND c.action_digest IN ({marks}) AND c.finished_at > (
            SELECT max(m.created_at) FROM {Message._meta.db_table} m WHERE m.session_id = %s AND m.role = 'user')
    """  # noqa: S608  names come from the models
    tenant = prepared(EffectRecord, "tenant", change.session.tenant_id)
    for digest, row, key, result in fetch(sql, [tenant, *digests, session, *digests, session]):
        if result is None:
            found.uncertain[bytes(digest)] = Uncertain(_uuid(row), key)
        else:
            found.denied[bytes(digest)] = json.loads(result)
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


def before_dispatch(change: Change, call: ToolCall) -> tuple[bool, Uncertain | None]:
    """In one statement: does a pause of anything stand, and is an action equal to this one uncertain."""
    sql = f"""
        SELECT NULL, NULL FROM (SELECT 1 FROM {DispatchPause._meta.db_table} LIMIT 1) p
        UNION ALL
        SELECT e.id, e.idempotency_key FROM {_uncertain("%s")}
    """  # noqa: S608
    paused, uncertain = False, None
    tenant = prepared(EffectRecord, "tenant", change.session.tenant_id)
    for row, key in fetch(sql, [tenant, call.action_digest]):
        if row is None:
            paused = True
        else:
            uncertain = Uncertain(_uuid(row), key)
    return paused, uncertain


def link(change: Change, effect: EffectRecord, uncertain: Uncertain) -> None:
    """T3: an IDEMPOTENT action whose equal is uncertain goes downstream under the key of that one."""
    first = EffectRecord.objects.get(pk=uncertain.effect)
    change.update(effect, idempotency_key=uncertain.idempotency_key, linked_to=first)


def _uncertain(marks: str) -> str:
    """Uncertain effects with these digests. The negation says nothing new, but it is the condition of the index."""
    return f"""{EffectRecord._meta.db_table} e WHERE e.tenant_id = %s AND e.action_digest IN ({marks})
        AND e.state IN ('outcome_unknown', 'manual_review') AND NOT (e.state IN ('completed', 'rejected', 'abandoned'))
        AND e.abandoned_at IS NULL"""


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)
