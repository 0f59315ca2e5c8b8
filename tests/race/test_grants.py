"""Standing grants under rival sessions: the last use is taken once; a use and a revocation wait for each other."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any

import pytest

from cayu_runtime.core import engine, grants, ids
from cayu_runtime.core.dispatch import record_intent
from cayu_runtime.core.routing import load_round
from cayu_runtime.models import Grant
from cayu_runtime.services import audit
from cayu_runtime.services.grant import make_grant, revoke_grant
from cayu_runtime.services.pause import pause_dispatch, resume_dispatch
from tests.machine import Counter, Gate, Machine, agent_of
from tests.race.rivals import PATIENCE, Rival, race, together, wait_until_blocked

pytestmark = pytest.mark.postgres
ASK = Gate(move_money="require_approval")


@pytest.fixture
def tool() -> Counter:
    return Counter()


def granted(machine: Machine, tool: Counter, uses: int) -> tuple[Any, Grant]:
    agent = agent_of(tool, policy=ASK)
    rules = {"to": {"equals": "x"}}
    return agent, make_grant(
        machine.tenant, machine.bob, tool="move_money", rules=rules, reason="only x", max_uses=uses
    )


def test_the_last_use_is_taken_by_one_of_two_sessions(
    machine: Machine, tool: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, grant = granted(machine, tool, uses=1)
    one, two = (machine.start(agent, run=False) for _ in range(2))
    held = hold_at_use(monkeypatch)
    first = Rival(lambda: engine.run_session(one.pk, "worker-1"))
    held.leader = first
    first.start()
    assert held.at.wait(PATIENCE), f"the first never came to its use: {first.outcome!r}"
    second = Rival(lambda: engine.run_session(two.pk, "worker-2"))
    second.start()
    second.ready.wait(PATIENCE)
    wait_until_blocked(second, by=first)
    held.go.set()
    for rival in (first, second):
        assert not isinstance(rival.result(), Exception)
    for session in (one, two):
        session.refresh_from_db()
    assert (one.state, two.interruption, tool.count) == ("completed", "approval_required", 1)
    grant.refresh_from_db()
    assert grant.uses == 1


def test_many_sessions_at_once_never_use_it_more_often_than_it_says(machine: Machine, tool: Counter) -> None:
    agent, grant = granted(machine, tool, uses=3)
    sessions = [machine.start(agent, run=False) for _ in range(8)]
    outcomes = together(8, lambda n: engine.run_session(sessions[n].pk, f"worker-{n}"))
    assert not [one for one in outcomes if isinstance(one, Exception)]
    grant.refresh_from_db()
    assert (tool.count, grant.uses) == (3, 3)
    for session in sessions:
        session.refresh_from_db()
    assert sum(session.interruption == "approval_required" for session in sessions) == 5


def test_a_revocation_waits_for_a_use_that_is_being_recorded_and_what_has_not_begun_stays_undone(
    machine: Machine, tool: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, grant = granted(machine, tool, uses=5)
    pause_dispatch(machine.bob, reason="so that nothing begins", tenant=machine.tenant)
    session = machine.start(agent, run=False)
    held = hold_at_use(monkeypatch)
    held.leader = user = Rival(lambda: engine.run_session(session.pk, "worker-1"))
    user.start()
    assert held.at.wait(PATIENCE), f"it never came to its use: {user.outcome!r}"
    taker = Rival(lambda: revoke_grant(machine.tenant, machine.carol, grant.pk, reason="over"))
    taker.start()
    taker.ready.wait(PATIENCE)
    wait_until_blocked(taker, by=user)
    held.go.set()
    user.result()
    assert isinstance(taker.result(), Grant)
    resume_dispatch(machine.bob, tenant=machine.tenant)
    machine.run(session)
    assert ([(c.state, c.reason) for c in machine.calls(session)], tool.count) == ([("blocked", "stale")], 0)


def test_a_use_waits_for_a_revocation_that_is_being_recorded_and_then_for_a_person(
    machine: Machine, tool: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, grant = granted(machine, tool, uses=5)
    session = machine.start(agent, run=False)
    taker, user = revoked_while(monkeypatch, machine, grant, lambda: engine.run_session(session.pk, "worker-1"))
    assert not isinstance(taker.outcome, Exception)
    assert not isinstance(user.outcome, Exception)
    session.refresh_from_db()
    grant.refresh_from_db()
    assert (session.interruption, grant.uses, tool.count) == ("approval_required", 0, 0)


def test_a_dispatch_waits_for_a_revocation_that_is_being_recorded_and_does_not_begin(
    machine: Machine, tool: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, grant = granted(machine, tool, uses=5)
    pause_dispatch(machine.bob, reason="so that nothing begins", tenant=machine.tenant)
    session = machine.start(agent)
    resume_dispatch(machine.bob, tenant=machine.tenant)
    revoked_while(monkeypatch, machine, grant, lambda: engine.run_session(session.pk, "worker-1"))
    assert ([(c.state, c.reason) for c in machine.calls(session)], tool.count) == ([("blocked", "stale")], 0)


def test_a_revocation_waits_for_a_dispatch_that_is_being_recorded(
    machine: Machine, tool: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, grant = granted(machine, tool, uses=5)
    pause_dispatch(machine.bob, reason="so that nothing begins", tenant=machine.tenant)
    session = machine.start(agent)
    resume_dispatch(machine.bob, tenant=machine.tenant)
    claim = machine.claim(session)
    dispatched, taken = race(
        monkeypatch, lambda: begin(machine, agent, claim), lambda: revoke_grant(
            machine.tenant, machine.carol, grant.pk, reason="over"
        )
    )  # fmt: skip
    assert dispatched.dispatch is not None
    assert isinstance(taken, Grant)


def begin(machine: Machine, agent: Any, claim: Any) -> Any:
    """T3 alone of the call that passed."""
    work = load_round(claim.session)
    assert work is not None
    return record_intent(claim, work, work.calls[0], agent.tools[0], "", ids.new_id(), monotonic() + 10)


class Held:
    """The leader stops after it moved a grant, before it commits."""

    def __init__(self) -> None:
        self.at, self.go = threading.Event(), threading.Event()
        self.leader: threading.Thread | None = None

    def stop(self) -> None:
        if threading.current_thread() is self.leader and not self.at.is_set():
            self.at.set()
            assert self.go.wait(PATIENCE)


def hold_at_use(monkeypatch: pytest.MonkeyPatch) -> Held:
    held, use = Held(), grants.use

    def stopped(*args: Any) -> Any:
        passed = use(*args)
        held.stop()
        return passed

    monkeypatch.setattr(grants, "use", stopped)
    return held


def revoked_while(monkeypatch: pytest.MonkeyPatch, machine: Machine, grant: Grant, work: Any) -> tuple[Rival, Rival]:
    """A revocation is written and not committed when `work` begins and is seen to wait for it."""
    held, record = Held(), audit.Trail.record

    def stopped(trail: Any, *args: Any, **said: Any) -> Any:
        entry = record(trail, *args, **said)
        held.stop()
        return entry

    monkeypatch.setattr(audit.Trail, "record", stopped)
    held.leader = taker = Rival(lambda: revoke_grant(machine.tenant, machine.carol, grant.pk, reason="over"))
    taker.start()
    assert held.at.wait(PATIENCE), f"it was never taken back: {taker.outcome!r}"
    user = Rival(work)
    user.start()
    user.ready.wait(PATIENCE)
    wait_until_blocked(user, by=taker)
    held.go.set()
    for rival in (taker, user):
        rival.result()
    return taker, user
