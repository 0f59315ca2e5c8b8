"""One transition is all or nothing: a lost race, a lost lease or an error leaves every row as it was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, models
from django.test.utils import CaptureQueriesContext
from django_q.models import OrmQ

from cayu_runtime.core import clock
from cayu_runtime.core.ids import new_id
from cayu_runtime.core.transitions import Change, new_session, transition
from cayu_runtime.errors import Conflict, Fenced, LostRace, NotFound
from cayu_runtime.models import Approval, Attempt, EffectRecord, Event, Message, Session, ToolCall, ToolRound
from tests import rows

pytestmark = pytest.mark.django_db


def change_all(session: Session, work: Callable[[Change], object], **how: Any) -> Change:
    """A transition that writes in every way it can, then does `work`."""
    with transition(session.pk, **how) as change:
        change.event("before")
        change.session_to("interrupted", interruption="worker_lost", stopped_by="worker_lost")
        change.add(rows.message(session=session, position=change.next("messages"), save=False))
        change.wake()
        work(change)
        change.event("after")
    return change


def stored(row: models.Model) -> dict[str, Any]:
    return type(row)._default_manager.filter(pk=row.pk).values().get()


def nothing_was_written() -> bool:
    return not (Event.objects.exists() or Message.objects.exists() or OrmQ.objects.exists())


def test_a_transition_that_ends_well_keeps_everything() -> None:
    session = rows.session("running")
    call = rows.call("prepared", round=rows.tool_round(session=session))
    change = change_all(session, lambda change: change.move(call, "failed", result=rows.RESULT), fence=session.fence)
    session.refresh_from_db()
    assert (session.state, session.interruption, session.stopped_by) == ("interrupted", "worker_lost", "worker_lost")
    assert (session.messages, session.last_seq, session.updated_at) == (1, 2, change.now)
    assert list(Event.objects.values_list("type", "at")) == [("before", change.now), ("after", change.now)]
    assert stored(call)["state"] == "failed"
    assert Message.objects.get().position == 0
    assert OrmQ.objects.count() == 1


def test_an_error_leaves_nothing() -> None:
    session = rows.session("running")
    call = rows.call("prepared", round=rows.tool_round(session=session))
    before = stored(session), stored(call)

    def fail(change: Change) -> None:
        change.move(call, "failed", result=rows.RESULT)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change_all(session, fail)
    assert (stored(session), stored(call)) == before
    assert nothing_was_written()


def test_a_row_that_the_database_refuses_leaves_nothing() -> None:
    session = rows.session("running")
    before = stored(session)
    taken = rows.message(session=session, position=0, save=False)
    with pytest.raises(IntegrityError):
        change_all(session, lambda change: change.add(taken))
    assert stored(session) == before
    assert nothing_was_written()


# ---- a lost race: what was read is no longer what stands ----

MEANWHILE: list[Any] = [
    (ToolRound, "executing", "settled", {"state": "settled", "settled_at": rows.NOW}),
    (ToolCall, "prepared", "dispatched", {"state": "dispatched", "dispatched_at": rows.NOW}),
    (ToolCall, "prepared", "dispatched", {"version": 2, "proposed_arguments": {}, "edited_by": "bob"}),
    (EffectRecord, "proposed", "authorized", {"state": "abandoned", "closed_at": rows.NOW}),
    (EffectRecord, "outcome_unknown", "manual_review", {"revision": 2}),
    (Approval, "pending", "void", {"state": "expired", "closed_at": rows.NOW}),
    (Approval, "pending", "void", {"version": 2}),
    (Attempt, "admitted", "selected", {"state": "superseded", "closed_at": rows.NOW}),
]
each_race = pytest.mark.parametrize(
    "model, source, target, meanwhile",
    [pytest.param(*case, id=f"{case[0].__name__}: {', '.join(case[3])} meanwhile") for case in MEANWHILE],
)


@each_race
def test_who_lost_a_race_keeps_nothing_of_the_transition(
    model: type[models.Model], source: str, target: str, meanwhile: dict[str, Any]
) -> None:
    row: Any = rows.make(model, source)
    session: Session = row.effect.session if model is Attempt else row.session
    model._default_manager.filter(pk=row.pk).update(**meanwhile)
    before = stored(session), stored(row)
    brings = {"dispatched_at": rows.NOW} if target == "dispatched" else {}

    with pytest.raises(LostRace, match=f"This {model.__name__} was moved by somebody else. Read it again."):
        change_all(session, lambda change: change.move(row, target, **brings))
    assert (stored(session), stored(row)) == before
    assert row.state == source
    assert nothing_was_written()


@each_race
def test_evidence_of_a_row_that_was_moved_meanwhile_is_not_written_either(
    model: type[models.Model], source: str, target: str, meanwhile: dict[str, Any]
) -> None:
    row: Any = rows.make(model, source)
    session: Session = row.effect.session if model is Attempt else row.session
    model._default_manager.filter(pk=row.pk).update(**meanwhile)
    before = stored(row)
    began = "admitted_at" if model is Attempt else "created_at"
    with pytest.raises(LostRace):
        change_all(session, lambda change: change.update(row, **{began: rows.LATER}))
    assert stored(row) == before
    assert nothing_was_written()


def test_rows_that_were_moved_before_the_lost_one_are_put_back() -> None:
    session = rows.session("running")
    call = rows.call("awaiting_approval", round=rows.tool_round("waiting", session=session))
    effect, approval = rows.effect("proposed", call=call), rows.approval("pending", call=call)
    Approval.objects.filter(pk=approval.pk).update(state="void", closed_at=rows.NOW)
    before = [stored(row) for row in (session, call.round, call, effect)]

    def withdraw(change: Change) -> None:
        change.move(effect, "abandoned")
        change.move(call, "cancelled", result=rows.RESULT)
        change.move(call.round, "settled")
        change.move(approval, "cancelled")

    with pytest.raises(LostRace):
        change_all(session, withdraw)
    assert [stored(row) for row in (session, call.round, call, effect)] == before
    assert nothing_was_written()


def test_a_row_that_is_gone_is_a_lost_race() -> None:
    session = rows.session("running")
    call = rows.call("prepared", round=rows.tool_round(session=session))
    ToolCall.objects.filter(pk=call.pk).delete()
    with pytest.raises(LostRace):
        change_all(session, lambda change: change.move(call, "failed", result=rows.RESULT))
    assert nothing_was_written()


def test_a_lost_race_is_a_conflict_that_the_api_can_name() -> None:
    assert issubclass(LostRace, Conflict)
    assert LostRace.code == "lost_race"


def test_a_session_whose_fence_grew_inside_the_transition_is_a_lost_race() -> None:
    """The lock forbids it; the compare-and-set would still see it."""
    session = rows.session("running")
    with pytest.raises(LostRace, match="This session was moved by somebody else"):
        change_all(session, lambda change: Session.objects.filter(pk=session.pk).update(fence=2))
    assert stored(session)["fence"] == 1
    assert nothing_was_written()


# ---- the fence and the tenant: who may write at all ----


@pytest.mark.parametrize(
    "state, fence",
    [
        ("running", 0),  # a newer claim holds it
        ("running", 2),  # a claim that never was
        ("interrupting", 0),
        ("pending", 1),  # the fence is ours, the lease is not: it was given back
        ("interrupted", 1),
        ("completed", 1),
        ("failed", 1),
    ],
)
def test_a_worker_without_the_lease_writes_nothing(state: str, fence: int) -> None:
    session = rows.session(state, fence=1)
    before = stored(session)
    entered: list[Change] = []
    with pytest.raises(Fenced):
        change_all(session, entered.append, fence=fence)
    assert stored(session) == before
    assert not entered
    assert nothing_was_written()


@pytest.mark.parametrize("state", ["running", "interrupting"])
def test_the_holder_of_the_lease_writes(state: str) -> None:
    session = rows.session(state, fence=7)
    change_all(session, lambda change: None, fence=7)
    assert stored(session)["state"] == "interrupted"


def test_a_lease_whose_time_is_over_still_writes_until_somebody_takes_it() -> None:
    """Only a higher fence ends it: time alone would let two believe that they hold it."""
    session = rows.session("running", lease_until=rows.NOW - timedelta(hours=1))
    change_all(session, lambda change: None, fence=1)
    assert stored(session)["state"] == "interrupted"


def test_another_tenants_session_is_not_found() -> None:
    session, stranger = rows.session("running"), rows.tenant()
    with pytest.raises(NotFound, match="There is no such session"):
        change_all(session, lambda change: None, tenant=stranger.pk)
    with pytest.raises(NotFound), transition(new_id()):
        pass
    assert nothing_was_written()
    change_all(session, lambda change: None, tenant=session.tenant_id)


# ---- what a transition writes ----


def test_a_transition_without_any_write_writes_nothing() -> None:
    """Looking under the lock (a wake-up with nothing to do, a refusal without a trace) is no change."""
    session = rows.session("running", updated_at=rows.NOW - timedelta(days=1))
    before = stored(session)
    with CaptureQueriesContext(connection) as queries, transition(session.pk) as change:
        assert change.session.pk == session.pk
    assert stored(session) == before
    assert not [query["sql"] for query in queries if query["sql"].startswith(("UPDATE", "INSERT"))]


def test_the_databases_clock_and_not_pythons_stamps_everything() -> None:
    session = rows.session("running")
    with clock.shifted(timedelta(days=400)):
        change = change_all(session, lambda change: None)
    assert change.now - rows.NOW > timedelta(days=399)
    assert stored(session)["updated_at"] == change.now
    assert set(Event.objects.values_list("at", flat=True)) == {change.now}


def test_the_revision_of_an_effect_grows_with_each_change() -> None:
    effect = rows.effect("proposed")
    with transition(effect.session_id) as change:
        change.move(effect, "authorized")
        change.update(effect, target="1043")
        change.update(effect, target="1044")
    assert stored(effect)["revision"] == effect.revision == 4


def test_a_new_session_is_inserted_with_what_its_first_transition_adds() -> None:
    tenant = rows.tenant()
    session = rows.session("pending", tenant=tenant, save=False)
    with new_session(session) as change:
        change.event("session.started")
        change.add(rows.message(session=session, position=change.next("messages"), save=False))
        change.wake()
    session.refresh_from_db()
    assert (session.state, session.last_seq, session.messages) == ("pending", 1, 1)
    assert session.created_at == session.updated_at == change.now
    assert OrmQ.objects.count() == 1


def test_a_new_session_whose_first_transition_fails_never_was() -> None:
    session = rows.session("pending", save=False)

    def start() -> None:
        with new_session(session) as change:
            change.event("session.started")
            change.add(rows.message(session=session, position=0, save=False))
            change.add(rows.message(session=session, position=0, save=False))

    with pytest.raises(IntegrityError):
        start()
    assert not Session.objects.exists()
    assert nothing_was_written()


def test_positions_are_counted_on_the_session_row() -> None:
    session = rows.session("running")
    with transition(session.pk) as change:
        assert [change.next("messages") for _ in range(3)] == [0, 1, 2]
        assert change.next("rounds") == 0
    with transition(session.pk) as change:
        assert change.next("messages") == 3
        assert change.next("rounds") == 1
