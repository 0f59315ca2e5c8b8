"""Owners and recoverers of one session at one moment, in both orders (B5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cayu_runtime.core import clock, execution, lease
from cayu_runtime.core.lease import Claim
from cayu_runtime.errors import Fenced
from cayu_runtime.models import Attempt
from tests.machine import Counter, Gate, Machine, agent_of
from tests.race.rivals import race

pytestmark = pytest.mark.postgres
ASK = Gate(move_money="require_approval")
LATER = timedelta(seconds=60)


class Stalled(BaseException):
    """The owner stands still; what it was about to do is done by the test."""


class Owner:
    """A worker that ran the tool, and stands before its T4."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tool = Counter()
        self.session = machine.start(agent_of(self.tool, policy=ASK))
        machine.decide(machine.approvals(self.session)[0], "approve")
        self.before_t4: tuple[Any, ...] = ()

        def stand_still(*args: Any) -> None:
            self.before_t4 = args
            raise Stalled

        with monkeypatch.context() as patch:
            patch.setattr(execution, "_settle_surely", stand_still)
            with pytest.raises(Stalled):
                machine.run(self.session)
        monkeypatch.setattr(clock, "_offset", LATER)

    def goes_on(self) -> bool:
        return execution._settle_surely(*self.before_t4)

    def taken_over_by(self, worker: str) -> Claim | None:
        return lease.claim(self.session.pk, worker)


@pytest.fixture
def owner(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Owner:
    return Owner(machine, monkeypatch)


def test_of_two_who_take_over_at_one_moment_one_does(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """B5."""
    first, second = race(monkeypatch, lambda: owner.taken_over_by("worker-2"), lambda: owner.taken_over_by("worker-3"))
    assert isinstance(first, Claim)
    assert second is None
    owner.session.refresh_from_db()
    assert (owner.session.lease_owner, owner.session.fence) == ("worker-2", first.lease.fence)


def test_an_owner_who_settles_first_keeps_its_session(
    machine: Machine, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5: nobody had taken it over, so its fence still is the highest."""
    settled, claimed = race(monkeypatch, owner.goes_on, lambda: owner.taken_over_by("worker-2"))
    assert settled is True
    assert isinstance(claimed, Claim), "the lease was over all the same"
    assert (machine.effect(owner.session).state, owner.tool.count) == ("completed", 1)
    assert not Attempt.objects.filter(kind="late_outcome").exists()


def test_an_owner_who_comes_second_is_fenced_and_its_receipt_is_kept(
    machine: Machine, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5: what it knows settles the doubt, as evidence and not under its lease; nothing runs again."""
    claimed, fenced = race(monkeypatch, lambda: owner.taken_over_by("worker-2"), owner.goes_on)
    assert isinstance(claimed, Claim)
    assert isinstance(fenced, Fenced)
    late = Attempt.objects.get(effect=machine.effect(owner.session), kind="late_outcome")
    assert (late.state, late.evidence["outcome"]) == ("selected", "completed")
    monkeypatch.setattr(clock, "_offset", 3 * LATER)
    assert machine.run(owner.session, "worker-3").state == "completed"
    assert (machine.effect(owner.session).state, owner.tool.count) == ("completed", 1)
