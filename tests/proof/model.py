"""The states and what goes with what, written anew from the design as plain Python. It imports nothing of the runtime.

Rows come as dictionaries. Each function yields sentences about what is not as it must be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]

CALL_MOVES = {
    "awaiting_approval": {"prepared", "denied", "expired", "cancelled", "blocked", "outcome_unknown"},
    "awaiting_answer": {"completed", "expired", "cancelled"},
    "prepared": {"dispatched", "denied", "expired", "blocked", "completed", "failed", "outcome_unknown"},
    "dispatched": {"completed", "failed", "outcome_unknown", "dispatched"},
    "outcome_unknown": {"completed", "failed", "awaiting_approval"},
}
APPROVAL_MOVES = {
    "pending": {"approved", "denied", "expired", "cancelled", "void"},
    "approved": {"consumed", "revoked", "expired", "cancelled", "void"},
}
EFFECT_MOVES = {
    "proposed": {"authorized", "abandoned"},
    "authorized": {"intent_recorded", "abandoned", "rejected", "manual_review"},
    "intent_recorded": {"receipted", "completed", "rejected", "outcome_unknown"},
    "receipted": {"completed", "manual_review"},
    "outcome_unknown": {"completed", "receipted", "rejected", "safe_to_retry", "manual_review"},
    "manual_review": {"completed", "receipted", "rejected", "safe_to_retry"},
    "safe_to_retry": {"authorized", "rejected", "manual_review"},
}
SETTLED_CALL = {"blocked", "completed", "failed", "denied", "expired", "cancelled"}
CLOSED_EFFECT = {"completed", "rejected", "abandoned"}

# The states that an effect may have beside those of its call.
BESIDE = {
    "awaiting_approval": {"proposed", "safe_to_retry"},
    "prepared": {"authorized"},
    "dispatched": {"intent_recorded", "receipted"},
    "outcome_unknown": {"outcome_unknown", "manual_review", "receipted"},
    "completed": {"completed"},
    "failed": {"rejected", "abandoned"},
    "blocked": {"rejected", "abandoned"},
    "denied": {"rejected", "abandoned"},
    "expired": {"rejected", "abandoned"},
    "cancelled": {"rejected", "abandoned"},
}
GIVEN_UP = {"outcome_unknown", "manual_review", "receipted", "completed", "rejected"}

# What an event says that its call is from then on.
SAYS = {
    "tool.call.approval_requested": "awaiting_approval",
    "tool.call.approved": "prepared",
    "tool.call.approval_denied": "denied",
    "tool.call.approval_revoked": "denied",
    "tool.call.approval_expired": "expired",
    "tool.call.cancelled": "cancelled",
    "tool.call.blocked": "blocked",
    "tool.call.started": "dispatched",
    "tool.call.completed": "completed",
    "tool.call.failed": "failed",
    "tool.effect.outcome_unknown": "outcome_unknown",
    "question.asked": "awaiting_answer",
    "question.answered": "completed",
    "question.expired": "expired",
}


@dataclass(slots=True)
class Rows:
    """All rows of one tenant at one moment."""

    sessions: list[Row]
    rounds: list[Row]
    calls: list[Row]
    effects: list[Row]
    approvals: list[Row]
    decisions: list[Row]
    questions: list[Row]
    attempts: list[Row]
    events: list[Row]
    messages: list[Row]


@dataclass(slots=True)
class Grouped:
    """The same, as they belong together."""

    rows: Rows
    calls: dict[Any, list[Row]] = field(default_factory=lambda: defaultdict(list))
    rounds: dict[Any, list[Row]] = field(default_factory=lambda: defaultdict(list))
    effects: dict[Any, Row] = field(default_factory=dict)
    approvals: dict[Any, list[Row]] = field(default_factory=lambda: defaultdict(list))
    dispatches: dict[Any, list[Row]] = field(default_factory=lambda: defaultdict(list))
    events: dict[Any, list[Row]] = field(default_factory=lambda: defaultdict(list))
    told: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    messages: dict[Any, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for call in self.rows.calls:
            self.calls[call["round_id"]].append(call)
        for row in self.rows.rounds:
            self.rounds[row["session_id"]].append(row)
        self.effects.update({effect["call_id"]: effect for effect in self.rows.effects})
        for approval in self.rows.approvals:
            self.approvals[approval["call_id"]].append(approval)
        for attempt in self.rows.attempts:
            if attempt["kind"] == "dispatch":
                self.dispatches[attempt["effect_id"]].append(attempt)
        for event in self.rows.events:
            self.events[event["session_id"]].append(event)
            if event["payload"].get("call"):
                self.told[event["payload"]["call"]].append(event)
        for message in self.rows.messages:
            self.messages[message["session_id"]].append(message)


def lies(rows: Rows) -> Iterator[str]:
    """Everything that these rows say and that can't be true together."""
    grouped = Grouped(rows)
    for session in rows.sessions:
        for said in _about_session(session, grouped):
            yield f"session {session['session_id']} ({session['state']} {session['interruption'] or ''}): {said}"
    for call in rows.calls:
        for said in _about_call(call, grouped):
            yield f"call {call['tool']} of {call['session_id']} ({call['state']} {call['reason']}): {said}"


def moved(before: Rows, now: Rows) -> Iterator[str]:
    """Moves between two looks that no chain of legal moves explains."""
    for kind, moves in (("calls", CALL_MOVES), ("effects", EFFECT_MOVES), ("approvals", APPROVAL_MOVES)):
        was = {row["id"]: row["state"] for row in getattr(before, kind)}
        rows = {row["id"]: row["state"] for row in getattr(now, kind)}
        for key, state in was.items():
            if key not in rows:
                yield f"one of {kind} is gone"
            elif rows[key] != state and rows[key] not in _reachable(moves, state):
                yield f"{kind}: {state} became {rows[key]}"


def _reachable(moves: Mapping[str, Iterable[str]], state: str) -> set[str]:
    found: set[str] = set()
    ahead = [state]
    while ahead:
        for target in moves.get(ahead.pop(), ()):
            if target not in found:
                found.add(target)
                ahead.append(target)
    return found


def _about_session(session: Row, grouped: Grouped) -> Iterator[str]:
    state = session["state"]
    if (state in ("running", "interrupting")) != (session["lease_owner"] is not None):
        yield "a lease is held by nobody, or somebody holds what is not leased"
    if (state == "pending") != (session["runnable_at"] is not None):
        yield "runnable_at is set exactly where it must not be"
    if (state == "interrupted") != (session["interruption"] is not None):
        yield "it says why it waits, and does not"
    rounds = grouped.rounds[session["id"]]
    open_rounds = [row for row in rounds if row["state"] != "settled"]
    if len(open_rounds) > 1:
        yield "two rounds are open"
    if open_rounds and state in ("completed", "failed"):
        yield "it has ended over an open round"
    for row in rounds:
        yield from _about_round(row, grouped.calls[row["id"]], moves=state in ("pending", "running", "interrupting"))
    states = {call["state"] for row in open_rounds for call in grouped.calls[row["id"]]}
    if state == "interrupted" and session["interruption"] != (expected := why_it_waits(session, states)):
        yield f"it must wait for {expected}"
    if state == "pending" and why_it_waits(session, states) is not None:
        yield f"it is runnable, and waits for {why_it_waits(session, states)}"
    yield from _about_log(session, grouped.events[session["id"]])
    yield from _about_transcript(session, rounds, grouped)


def why_it_waits(session: Row, states: set[str]) -> str | None:
    for call, why in (
        ("outcome_unknown", "effect_outcome_unknown"),
        ("awaiting_answer", "user_input_required"),
        ("awaiting_approval", "approval_required"),
    ):
        if call in states:
            return why
    stopped: str | None = session["stopped_by"]
    return stopped


def _about_round(row: Row, calls: list[Row], *, moves: bool) -> Iterator[str]:
    """While its session `moves`, a round whose last calls two hands have ended may wait for the next to settle it."""
    states = {call["state"] for call in calls}
    if states <= SETTLED_CALL:
        expected = "executing" if moves and row["state"] == "executing" else "settled"
    else:
        expected = "waiting" if states & {"awaiting_approval", "awaiting_answer"} else "executing"
    if row["state"] != expected:
        yield f"round {row['position']} is {row['state']} over calls that are {sorted(states)}"


def _about_log(session: Row, events: list[Row]) -> Iterator[str]:
    if [event["seq"] for event in events] != list(range(1, session["last_seq"] + 1)):
        yield "its events have a gap"
    elif events and bytes(events[-1]["hash"]) != bytes(session["last_hash"]):
        yield "its last hash is not that of its last event"
    ends = [e["type"] for e in events if e["type"] in ("session.completed", "session.failed", "session.resumed")]
    if session["state"] in ("completed", "failed") and ends[-1:] != [f"session.{session['state']}"]:
        yield f"it ended, and its log says {ends[-1:]}"


def _about_transcript(session: Row, rounds: list[Row], grouped: Grouped) -> Iterator[str]:
    messages = grouped.messages[session["id"]]
    if [message["position"] for message in messages] != list(range(session["messages"])):
        yield "its transcript has a gap"
    settled = [row for row in rounds if row["state"] == "settled"]
    results = [message for message in messages if message["role"] == "tools"]
    if len(settled) != len(results):
        yield f"{len(settled)} rounds are settled, and the model was told of {len(results)}"
        return
    for row, message in zip(settled, results, strict=True):
        asked = [call["call_id"] for call in grouped.calls[row["id"]]]
        if [part["tool_call_id"] for part in message["body"]["parts"]] != asked:
            yield f"round {row['position']}: the model was not told of each call once, in its order"


def _about_call(call: Row, grouped: Grouped) -> Iterator[str]:
    effect = grouped.effects.get(call["id"])
    if effect is not None:
        fits = BESIDE[call["state"]]
        if call["state"] == "failed" and effect["abandoned_at"] is not None:
            fits = GIVEN_UP
        if effect["state"] not in fits:
            yield f"its effect is {effect['state']}"
        yield from _about_effect(call, effect, grouped)
    elif call["effect_class"] != "none" and call["state"] != "blocked" and call["repeats_id"] is None:
        yield "it has no effect"
    yield from _about_approvals(call, grouped.approvals[call["id"]])
    yield from _about_story(call, effect, grouped.told[str(call["id"])])


def _about_effect(call: Row, effect: Row, grouped: Grouped) -> Iterator[str]:
    state, times = effect["state"], effect["dispatches"]
    dispatches = grouped.dispatches[effect["id"]]
    if len(dispatches) != times:
        yield f"{times} dispatches are counted and {len(dispatches)} recorded"
    if state in ("intent_recorded", "receipted", "outcome_unknown", "manual_review", "completed") and not times:
        yield f"its effect is {state} and was never dispatched"
    if state == "abandoned" and times:
        yield "its effect was dispatched and is abandoned"
    said = (effect["receipt"] or {}).get("outcome")
    if state == "completed" and said != "completed":
        yield f"its effect is completed, and its receipt says {said}"
    if state == "rejected" and said == "completed":
        yield "its effect is rejected, and its receipt says that it was done"
    open_dispatches = [attempt for attempt in dispatches if attempt["state"] == "admitted"]
    if bool(open_dispatches) != (state == "intent_recorded"):
        yield f"its effect is {state}, and {len(open_dispatches)} dispatches are open"


def _about_approvals(call: Row, approvals: list[Row]) -> Iterator[str]:
    states = [approval["state"] for approval in approvals]
    if states.count("pending") != (call["state"] == "awaiting_approval"):
        yield f"its approvals are {states}"
    gated = call["decision"] == "require_approval" or len(approvals) > 0
    if states.count("approved") != (call["state"] == "prepared" and gated):
        yield f"its approvals are {states}"


def _about_story(call: Row, effect: Row | None, events: list[Row]) -> Iterator[str]:
    """The log tells of each move, and they lead to where the call is."""
    at, authorised, begun = "", 0, 0
    for event in events:
        kind, payload = event["type"], event["payload"]
        to = SAYS.get(kind, "")
        if kind == "tool.effect.late_outcome" and payload.get("effect_was") in ("safe_to_retry", "authorized"):
            to = "outcome_unknown" if payload["contradicts"] else ""
        if kind == "tool.effect.verified" and payload.get("state") == "manual_review" and at == "dispatched":
            to = "outcome_unknown"
        if not to:
            continue
        if kind == "tool.call.approved":
            authorised += 1
        if kind == "tool.call.started" and not payload["replayed"]:
            begun += 1
        before = at or ("prepared" if call["decision"] != "require_approval" else "")
        settled_anew = kind == "tool.call.approval_requested" and at == "outcome_unknown"
        if at and to != at and not settled_anew and to not in CALL_MOVES.get(before, ()):
            yield f"its log moves it from {at} to {to}"
        at = to
    if call["decision"] == "require_approval" and begun > authorised:
        yield f"it began {begun} times, and was authorised {authorised} times"
    silent = at == "dispatched" and call["state"] == "outcome_unknown" and effect is not None
    if at and at != call["state"] and not (silent and effect and effect["state"] == "manual_review"):
        yield f"its log says {at}"
    if not at and call["state"] not in ("prepared", "completed"):
        yield "its log says nothing"
