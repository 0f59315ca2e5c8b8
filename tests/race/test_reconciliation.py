"""Requests about one effect at the same moment: one is admitted, the adapter is asked once, one outcome is selected."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cayu_runtime import Finding, Inquiry, Observation
from cayu_runtime.core.reconciliation import Reconciled
from cayu_runtime.errors import StaleRevision, Unfinished
from cayu_runtime.models import Attempt, Event
from cayu_runtime.services.effect import look_up_effect
from tests.db.test_abandonment import late
from tests.machine import Machine
from tests.race.rivals import PATIENCE, race, together
from tests.settling import DONE, Adapter, Downstream, seen, unknown

pytestmark = pytest.mark.postgres


def test_20_identical_requests_ask_the_adapter_once(machine: Machine) -> None:
    """The one that is admitted is answered when all others have been."""
    others, refused = threading.Event(), []

    def slowly(inquiry: Inquiry) -> Observation:
        assert others.wait(PATIENCE)
        return Observation(Finding.CONFIRMED_DONE, "There.", DONE)

    adapter = Adapter(slowly)
    session, effect = unknown(machine, Downstream(adapter))
    as_seen = seen(effect)

    def ask(number: int) -> Any:
        try:
            return look_up_effect(machine.tenant, machine.bob, effect.pk, as_seen, reason="customer called")
        except Unfinished as refusal:
            refused.append(refusal)
            if len(refused) == 19:
                others.set()
            return refusal

    outcomes = together(20, ask)
    (done,) = (outcome for outcome in outcomes if isinstance(outcome, Reconciled))
    assert (done.finding, done.replay, len(refused), len(adapter.asked)) == ("confirmed_done", False, 19, 1)
    effect.refresh_from_db()
    assert effect.state == "completed"
    assert Attempt.objects.filter(effect=effect, kind="lookup").count() == 1
    assert Event.objects.filter(session=session, type="tool.call.completed").count() == 1
    again = look_up_effect(machine.tenant, machine.bob, effect.pk, as_seen, reason="customer called")
    assert (again.replay, len(adapter.asked)) == (True, 1)


def test_of_two_people_who_saw_the_same_the_later_is_told_to_read_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Adapter(Finding.NOT_FOUND)
    _, effect = unknown(machine, Downstream(adapter))
    as_seen = seen(effect)

    def ask(by: Any) -> Any:
        return look_up_effect(machine.tenant, by, effect.pk, as_seen, reason="customer called")

    first, second = race(monkeypatch, lambda: ask(machine.bob), lambda: ask(machine.carol))
    assert first.finding == "not_found"
    assert isinstance(second, StaleRevision)
    assert len(adapter.asked) == 1


def test_a_request_that_waits_behind_the_tool_s_own_late_answer_asks_nobody(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = Adapter()
    session, effect = unknown(machine, Downstream(adapter))
    as_seen = seen(effect)

    def ask() -> Any:
        return look_up_effect(machine.tenant, machine.bob, effect.pk, as_seen, reason="customer called")

    _, second = race(monkeypatch, lambda: late(machine, machine.copy(session), machine.effect(session)), ask)
    assert isinstance(second, StaleRevision)
    effect.refresh_from_db()
    assert (effect.state, effect.receipt["source"], adapter.asked) == ("completed", "late", [])
