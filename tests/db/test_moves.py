"""Every listed move is made by the one transition function on a real row; every other is refused, and changes nothing.

The full product of each machine's states: a row that stands in the source state, with what its CHECKs ask for.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, models

from cayu_runtime.core import states
from cayu_runtime.core.transitions import MACHINES, Change, transition
from cayu_runtime.errors import IllegalMove
from cayu_runtime.models import Approval, Attempt, EffectRecord, Event, Proposal, Session, ToolCall, ToolRound
from tests import rows

pytestmark = pytest.mark.django_db

ROWS = {model: machine for model, machine in MACHINES.items() if model is not Session}

# An effect that was dispatched once, was found safe to retry and is authorised again ends differently from one that
# never was.
DISPATCHED_BEFORE = ("rejected", "manual_review")


def pairs(allowed: bool) -> list[Any]:
    return [
        pytest.param(model, source, target, id=f"{model.__name__}: {source} → {target}")
        for model, machine in ROWS.items()
        for source in machine.names
        for target in machine.names
        if (target in machine.states[source].moves) is allowed
    ]


def session_pairs(allowed: bool) -> list[Any]:
    return [
        pytest.param(source, target, id=f"{source} → {target}")
        for source in states.SESSION.names
        for target in states.SESSION.names
        if (target in states.SESSION.states[source].moves) is allowed
    ]


def row_in(model: type[models.Model], source: str, target: str) -> Any:
    if model is EffectRecord and source == "authorized" and target in DISPATCHED_BEFORE:
        return rows.effect(source, **rows.evidence(EffectRecord, "safe_to_retry"))
    if model is Approval and source == "pending" and target in ("approved", "denied"):
        return rows.approval(source)
    return rows.make(model, source)


def evidence_for(row: Any, source: str, target: str) -> dict[str, Any]:
    """What the mover must bring: what the target asks for and the row does not carry; never when it ended."""
    model = type(row)
    if model is EffectRecord and target == "outcome_unknown" and row.dispatch_id is None:
        return {"unknown_since": rows.NOW, "quarantined_at": rows.NOW}
    wanted = rows.evidence(model, target)
    if model is Approval and target in ("approved", "denied"):
        wanted["decided_by"] = rows.decision(approval=row)
    if model is Proposal and target == "used":
        wanted["used_by"] = rows.call("dispatched", session=row.session)
    if model is Approval and source == "approved":
        wanted.pop("decided_at", None)
    carried = row.dispatch_id is not None if model is EffectRecord else False
    again = rows.DISPATCH if carried and target != "intent_recorded" else {}
    ends = ("closed_at", "finished_at", "settled_at")
    return {name: value for name, value in wanted.items() if name not in ends and name not in again}


def session_of(row: Any) -> Session:
    of: Session = row.effect.session if isinstance(row, Attempt) else row.session
    return of


def move(row: Any, target: str, values: dict[str, Any]) -> Change:
    with transition(session_of(row).pk) as change:
        change.event("tried")
        change.move(row, target, **values)
    return change


def move_session(session: Session, target: str, values: dict[str, Any]) -> Change:
    with transition(session.pk) as change:
        change.event("tried")
        change.session_to(target, **values)
    return change


def stored(row: models.Model) -> dict[str, Any]:
    return type(row)._default_manager.filter(pk=row.pk).values().get()


@pytest.mark.parametrize("model, source, target", pairs(allowed=True))
def test_a_listed_move_is_made(model: type[models.Model], source: str, target: str) -> None:
    row = row_in(model, source, target)
    values = evidence_for(row, source, target)
    change = move(row, target, values)

    held = stored(row)
    assert held["state"] == target == row.state
    end = {ToolRound: "settled_at", ToolCall: "finished_at"}.get(model, "closed_at")
    assert held[end] == (change.now if target in ROWS[model].final else None)
    for name, value in values.items():
        assert getattr(type(row)._default_manager.get(pk=row.pk), name) == value
    if model is EffectRecord:
        assert held["revision"] == row.revision == 2


@pytest.mark.parametrize("model, source, target", pairs(allowed=False))
def test_a_move_that_is_not_listed_is_refused_and_changes_nothing(
    model: type[models.Model], source: str, target: str
) -> None:
    row = row_in(model, source, target)
    session = session_of(row)
    before = stored(row), stored(session)
    with pytest.raises(IllegalMove, match=rf"{source} → {target} is not a legal move"):
        move(row, target, rows.evidence(model, target))
    assert (stored(row), stored(session)) == before
    assert row.state == source
    assert not Event.objects.exists()


NEEDS_EVIDENCE = [
    (ToolRound, "executing", "waiting", {"settled_at": rows.NOW}),
    (ToolCall, "prepared", "completed", {}),
    (ToolCall, "prepared", "failed", {}),
    (ToolCall, "prepared", "dispatched", {}),
    (ToolCall, "awaiting_approval", "denied", {}),
    (ToolCall, "awaiting_approval", "blocked", {"result": rows.RESULT}),
    (ToolCall, "awaiting_answer", "completed", {}),
    (ToolCall, "outcome_unknown", "awaiting_approval", {"result": rows.RESULT}),
    (EffectRecord, "authorized", "intent_recorded", {}),
    (EffectRecord, "authorized", "outcome_unknown", {"unknown_since": rows.NOW}),
    (EffectRecord, "intent_recorded", "outcome_unknown", {}),
    (EffectRecord, "intent_recorded", "completed", {}),
    (EffectRecord, "intent_recorded", "receipted", {}),
    (EffectRecord, "outcome_unknown", "completed", {"receipt": {"v": 1}}),
    (Approval, "pending", "approved", {}),
    (Approval, "pending", "denied", {"decided_at": rows.NOW}),
]


@pytest.mark.parametrize("model, source, target, values", NEEDS_EVIDENCE)
def test_a_listed_move_without_its_evidence_is_refused_by_the_database(
    model: type[models.Model], source: str, target: str, values: dict[str, Any]
) -> None:
    row = rows.make(model, source)
    before = stored(row)
    with pytest.raises(IntegrityError):
        move(row, target, values)
    assert stored(row) == before


# ---- the session itself ----


@pytest.mark.parametrize("source, target", session_pairs(allowed=True))
def test_a_listed_move_of_the_session_is_made_and_clears_what_it_cannot_have(source: str, target: str) -> None:
    session = rows.session(source)
    wanted = {name: v for name, v in rows.evidence(Session, target).items() if name != "finished_at"}
    if source == target == "interrupted":
        wanted = {"interruption": "worker_lost"}
    change = move_session(session, target, wanted)

    session.refresh_from_db()
    assert session.state == target
    assert session.updated_at == change.now
    carried = {
        "runnable_at": rows.NOW if target == "pending" else None,
        "interruption": wanted.get("interruption"),
        "failure": wanted.get("failure"),
        "lease_owner": "worker-1" if target in states.LEASED else None,
        "lease_until": rows.LATER if target in states.LEASED else None,
        "finished_at": change.now if target in ("completed", "failed") else None,
    }
    assert {name: getattr(session, name) for name in carried} == carried


@pytest.mark.parametrize("source, target", session_pairs(allowed=False))
def test_a_move_of_the_session_that_is_not_listed_is_refused_and_changes_nothing(source: str, target: str) -> None:
    session = rows.session(source)
    before = stored(session)
    with pytest.raises(IllegalMove, match=rf"{source} → {target} is not a legal move"):
        move_session(session, target, rows.evidence(Session, target))
    assert stored(session) == before
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    "source, target",
    [("pending", "running"), ("running", "pending"), ("running", "interrupted"), ("running", "failed")],
)
def test_a_move_of_the_session_without_its_evidence_is_refused_by_the_database(source: str, target: str) -> None:
    session = rows.session(source)
    before = stored(session)
    with pytest.raises(IntegrityError):
        move_session(session, target, {})
    assert stored(session) == before


def test_an_unknown_state_is_no_move() -> None:
    call = rows.call("prepared")
    with pytest.raises(IllegalMove, match="prepared → lost"):
        move(call, "lost", {})


NEVER_DISPATCHED: dict[str, Any] = {
    "dispatch_id": None, "dispatches": 0, "dispatched_at": None, "deadline": None, "dispatch_fence": None,
    "dispatched_by": "", "quarantined_at": rows.NOW,
}  # fmt: skip


@pytest.mark.parametrize(
    "by_way_of, target",
    [(way, target) for way in ("outcome_unknown", "manual_review") for target in states.EFFECT.states[way].moves],
)
def test_an_effect_that_was_quarantined_before_any_dispatch_is_settled_like_another(
    by_way_of: str, target: str
) -> None:
    """After a restored backup nobody knows whether a dispatch was lost with it; a lookup may prove that it was."""
    effect = rows.effect("outcome_unknown", **NEVER_DISPATCHED)
    if by_way_of == "manual_review":
        move(effect, by_way_of, {})
    wanted = rows.evidence(EffectRecord, target)
    move(effect, target, {name: wanted[name] for name in rows.RECEIPT if name in wanted})
    assert stored(effect)["state"] == target


def test_a_row_of_another_session_cannot_be_moved_under_this_lock() -> None:
    ours, theirs = rows.session(), rows.call("prepared")
    before = stored(theirs)
    with pytest.raises(IllegalMove, match="another session"), transition(ours.pk) as change:
        change.move(theirs, "failed", result=rows.RESULT)
    assert stored(theirs) == before


def test_a_change_moves_one_row_and_no_other() -> None:
    session = rows.session()
    calls = [rows.call("prepared", round=rows.tool_round(session=session))]
    calls += [rows.call("prepared", round=calls[0].round) for _ in range(2)]
    with transition(session.pk) as change:
        change.move(calls[1], "failed", result=rows.RESULT)
    assert [stored(call)["state"] for call in calls] == ["prepared", "failed", "prepared"]
