"""A plan's automatic repair against the dispatch of the same call, in both orders (CASES B3): never both."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cayu_runtime.core import clock, dispatch, engine
from cayu_runtime.core.ids import new_id
from cayu_runtime.core.routing import load_round
from cayu_runtime.errors import Fenced, StalePlan
from cayu_runtime.models import EffectRecord, Session
from cayu_runtime.services.recovery import execute_recovery, plan_recovery
from tests.machine import Counter, Gate, Machine, agent_of
from tests.race.rivals import race

pytestmark = pytest.mark.postgres


def authorised(machine: Machine) -> tuple[Session, Counter, str]:
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate(move_money="require_approval")))
    machine.decide(machine.approvals(session)[0], "approve")
    return session, tool, plan_recovery(machine.tenant, session.session_id).digest


def repair(machine: Machine, session: Session, digest: str) -> Any:
    return execute_recovery(machine.tenant, machine.bob, session.session_id, digest=digest, reason="stuck")


def test_a_repair_that_comes_first_leaves_nothing_to_dispatch(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, tool, digest = authorised(machine)
    executed, ran = race(
        monkeypatch, lambda: repair(machine, session, digest), lambda: engine.run_session(session.pk, "worker-2")
    )
    assert executed.made == {"settle_prepared": 1}
    assert not isinstance(ran, Exception)
    machine.run(session)
    (call,) = machine.calls(session)
    assert (call.state, call.result["executed"], call.result["outcome_unknown"]) == ("failed", False, False)
    assert (tool.count, machine.effect(session).state, session.state) == (0, "abandoned", "completed")


def test_a_claim_that_comes_first_makes_the_plan_stale_and_dispatches_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, tool, digest = authorised(machine)
    ran, executed = race(
        monkeypatch, lambda: engine.run_session(session.pk, "worker-2"), lambda: repair(machine, session, digest)
    )
    assert not isinstance(ran, Exception)
    assert isinstance(executed, StalePlan)
    machine.run(session)
    assert (tool.count, machine.effect(session).dispatches, session.state) == (1, 1, "completed")


def test_a_dispatch_that_is_being_committed_wins_over_the_repair(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is made while T3 is written and not committed yet."""
    session, tool, digest = authorised(machine)
    lease = machine.claim(session)

    def intend() -> Any:
        work = load_round(session.pk)
        assert work is not None
        return dispatch.record_intent(lease, work, work.calls[0], tool, "", new_id(), 0.0)

    intent, executed = race(monkeypatch, intend, lambda: repair(machine, session, digest))
    assert intent.dispatch is not None
    assert isinstance(executed, StalePlan)
    assert EffectRecord.objects.get(session=session).state == "intent_recorded"


class Stalled:
    """An owner that stood still before its T3 until its lease was over; a plan would take the session from it."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session, self.tool, _ = authorised(machine)
        self.lease = machine.claim(self.session)
        monkeypatch.setattr(clock, "_offset", timedelta(seconds=60))
        self.digest = plan_recovery(machine.tenant, self.session.session_id).digest

    def goes_on(self) -> Any:
        work = load_round(self.session.pk)
        assert work is not None
        return dispatch.record_intent(self.lease, work, work.calls[0], self.tool, "", new_id(), 0.0)


def test_a_stalled_owner_whose_session_was_taken_by_a_plan_dispatches_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:  # B3, B5
    owner = Stalled(machine, monkeypatch)
    executed, intent = race(monkeypatch, lambda: repair(machine, owner.session, owner.digest), owner.goes_on)
    assert executed.made == {"settle_prepared": 1, "take_over": 1}
    assert isinstance(intent, Fenced)
    assert (machine.effect(owner.session).state, machine.effect(owner.session).dispatches) == ("abandoned", 0)


def test_a_stalled_owner_that_dispatches_first_makes_the_plan_stale(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:  # B3, B5
    owner = Stalled(machine, monkeypatch)
    intent, executed = race(monkeypatch, owner.goes_on, lambda: repair(machine, owner.session, owner.digest))
    assert intent.dispatch is not None
    assert isinstance(executed, StalePlan)
    assert (machine.effect(owner.session).state, machine.effect(owner.session).dispatches) == ("intent_recorded", 1)
