"""Effects whose outcome nobody knows, each settled by a lookup that its adapter answers at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..contracts import Actor
from ..models import EffectRecord
from ..services.effect import Seen, look_up_effect
from .agents import UNCERTAIN
from .lifecycle import Engine, people, start, wake


def lookups(engine: Engine, effects: int) -> Callable[[], dict[str, Any]]:
    """So many lookups one after another: admitted, asked, selected. What the sessions do then is not part of it."""
    who = people(engine)
    for number in range(effects):
        wake(who, start(who, UNCERTAIN, f"change-{number}"))
    unknown = EffectRecord.objects.filter(tenant=who.tenant, state="outcome_unknown")
    seen = [(pk, Seen(revision, sent)) for pk, revision, sent in unknown.values_list("id", "revision", "dispatch_id")]
    assert len(seen) == effects, f"{len(seen)} outcomes are unknown; {effects} should be."
    operator: Actor = who.approver

    def run() -> dict[str, Any]:
        began = time.perf_counter()
        for effect, identity in seen:
            settled = look_up_effect(who.tenant, operator, effect, identity, reason="The benchmark asks.")
            assert settled.effect.state == "completed"
        return {"count": effects, "seconds": time.perf_counter() - began}

    return run
