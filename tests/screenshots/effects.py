"""Effects for the pictures: each state, with the attempts that lead to it. The tool is the demo's: it can look up."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User

from cayu_runtime.core.ids import new_id
from cayu_runtime.models import EffectRecord
from tests import rows
from tests.web.records import page_of

from .addresses import STORY, States

SENT = rows.NOW - timedelta(minutes=50)
LOST = {
    "outcome": "outcome_unknown",
    "classification": "raised",
    "exceptions": ["ReadTimeout"],
    "message": "The ledger did not answer in 20 s.",
}
BOOKED = {"refund_id": "r-81", "order_id": "1042", "amount": "25.50", "booked_at": "2026-01-09T08:12:44+00:00"}
NOT_SENT: dict[str, Any] = {
    "dispatch_id": None, "dispatches": 0, "dispatched_at": None, "deadline": None, "dispatch_fence": None,
    "dispatched_by": "",
}  # fmt: skip
UNKNOWN: dict[str, Any] = {"unknown_since": SENT + timedelta(seconds=20)}
ONCE_MORE = "An earlier dispatch is proved not to have happened. Approving sends it once more."
REFUSED = {"v": 1, "outcome": "rejected", "message": "The ledger refused it: no such order."}


def make_effects(states: States) -> None:
    """Addresses "effect …" for each state of an effect, and for what else its page and its queue have words for."""
    without_adapter = states.office.unknown(task="refund order 1042 25.50 because " + STORY)
    states.session("unknown", without_adapter.session)
    states.of["effect without an adapter"] = f"/effects/{without_adapter.id}/"
    for name, row in (
        ("effect", without_adapter), ("call", without_adapter.call), ("session", without_adapter.session),
        ("person", states.office.bob),
    ):  # fmt: skip
        states.of[f"admin {name}"] = page_of(row)
    _effect(states, "proposed")
    _effect(states, "intent_recorded", {})
    _effect(states, "receipted", {"outcome": "completed"})
    _effect(states, "rejected", REFUSED, receipt=REFUSED)
    _effect(states, "abandoned")
    _effect(states, "outcome_unknown", LOST, ("not_found", "Nothing stands there so far."), **UNKNOWN)
    _effect(states, "manual_review", LOST, ("unavailable", "The ledger gave no usable answer."), **UNKNOWN)
    again = _effect(states, "safe_to_retry", LOST, ("absent", "The ledger has booked nothing, and never will."))
    states.approval("again", rows.approval(call=again.call, version=2, task=STORY, policy_reason=ONCE_MORE))
    _effect(states, "completed", LOST, ("confirmed_done", "The ledger booked it as r-81."))
    _effect(states, "outcome_unknown", LOST, name="asked", **UNKNOWN)
    _effect(states, "outcome_unknown", LOST, name="given up", abandoned_at=rows.NOW, **UNKNOWN)
    _quarantined(states)


def _effect(
    states: States,
    state: str,
    dispatched: dict[str, Any] | None = None,
    *looked_up: tuple[str, str],
    name: str = "",
    **values: Any,
) -> EffectRecord:
    """One effect; `dispatched` is what came of its dispatch (empty: nothing yet), `looked_up` findings and messages."""
    over = state in ("completed", "rejected", "abandoned")
    session = rows.session(
        "completed" if over else "failed" if "abandoned_at" in values else "running",
        tenant=values.pop("tenant", states.office.north), task=STORY, created_at=SENT,
    )  # fmt: skip
    what: dict[str, Any] = {"tool": "refund_order", "verb": "Refund order", "action_digest": os.urandom(32)}
    call = rows.call(rows.CALL_OF_EFFECT[state], session=session, **what)
    if dispatched is not None:
        values |= {"dispatched_at": SENT + timedelta(seconds=9)}
    effect = rows.effect(state, call=call, created_at=SENT, **values)
    if dispatched is not None:
        rows.attempt(
            "selected" if dispatched else "admitted", effect=effect, kind="dispatch", actor="worker-1",
            dispatch_id=effect.dispatch_id, admitted_at=SENT + timedelta(seconds=9), evidence=dispatched or None,
            closed_at=SENT + timedelta(seconds=20) if dispatched else None,
        )  # fmt: skip
    for outcome, message in looked_up:
        evidence = {"outcome": outcome, "message": message, "evidence": {"refund": BOOKED} if over else {}}
        asked = SENT + timedelta(minutes=30)
        erin = f"user:{User.objects.get(username='erin').pk}"
        rows.attempt(
            "selected", effect=effect, actor=erin, reason="The customer called.", evidence=evidence,
            admitted_at=asked, closed_at=asked + timedelta(seconds=1),
        )  # fmt: skip
    states.of[f"effect {name or state}"] = f"/effects/{effect.id}/"
    return effect


def _quarantined(states: States) -> None:
    """A tenant whose database was restored from a backup: grace's."""
    west = states.west
    restored: dict[str, Any] = {
        "quarantine": rows.quarantine(tenant=west),
        "reason": "The backup of 04:00 was restored.",
    }
    rows.pause(tenant=west, tool="", created_by="ops", **restored)
    marks: dict[str, Any] = {"quarantined_at": rows.NOW, "unknown_since": rows.NOW, "tenant": west}
    _effect(states, "outcome_unknown", None, name="quarantined", **NOT_SENT, **marks)
    _effect(states, "manual_review", LOST, name="quarantined after its dispatch", dispatch_id=new_id(), **marks)
