"""Many at one moment, and one place: nobody passes a limit of the tenant together with others."""

from typing import Any

import pytest

from cayu_runtime import Call
from cayu_runtime.core import transitions
from cayu_runtime.core.judgement import ProposedCall, judge
from cayu_runtime.core.rounds import record_step
from cayu_runtime.errors import LimitReached
from cayu_runtime.models import Approval, Session, Tenant
from cayu_runtime.services.idempotency import Done, do_once
from cayu_runtime.services.session import continue_session, start_session
from cayu_runtime.services.tenant import limit_tenant
from tests.machine import Counter, Gate, Machine, agent_of
from tests.race.rivals import Rival, race, together

pytestmark = pytest.mark.postgres


def limit(machine: Machine, **limits: int | None) -> None:
    limit_tenant(machine.bob, machine.tenant, limits, reason="the test says so")
    machine.tenant.refresh_from_db()


def start(machine: Machine, agent: str) -> Session:
    return start_session(Tenant.objects.get(pk=machine.tenant.pk), machine.alice, agent=agent, text="go")


def test_of_twenty_sessions_at_one_moment_as_many_start_as_there_is_room(machine: Machine) -> None:
    agent = agent_of(rounds=[]).name
    start(machine, agent)
    limit(machine, max_running_sessions=4)
    outcomes = together(20, lambda n: start(machine, agent))
    assert sum(isinstance(outcome, Session) for outcome in outcomes) == 3
    assert sum(isinstance(outcome, LimitReached) for outcome in outcomes) == 17
    assert Session.objects.count() == 4


@pytest.mark.parametrize("start_first", [True, False])
def test_a_start_and_a_message_to_what_has_ended_share_the_last_place(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, start_first: bool
) -> None:
    agent = agent_of(rounds=[])
    done = machine.start(agent)
    limit(machine, max_running_sessions=1)

    def begin() -> Any:
        return start(machine, agent.name)

    def go_on() -> Any:
        return continue_session(machine.tenant, machine.alice, done.session_id, text="more")[0]

    won, lost = race(monkeypatch, begin, go_on) if start_first else race(monkeypatch, go_on, begin)
    assert isinstance(won, Session)
    assert isinstance(lost, LimitReached)
    assert Session.objects.filter(state="pending").count() == 1
    done.refresh_from_db()
    assert done.state == ("completed" if start_first else "pending")


def test_one_start_under_one_key_sent_twice_at_one_moment_takes_one_place(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_of(rounds=[]).name
    limit(machine, max_running_sessions=1)

    def once() -> Any:
        return do_once(
            machine.tenant, machine.alice, "key-1", {"agent": agent},
            lambda keep: start_session(machine.tenant, machine.alice, agent=agent, text="go", keep=keep),
        )  # fmt: skip

    first, second = race(monkeypatch, once, once)
    assert isinstance(first, Done)
    assert isinstance(second, Done)
    assert (first.session.pk, first.replay, second.replay) == (second.session.pk, False, True)


def test_starts_of_a_tenant_without_a_limit_do_not_wait_for_one_another(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, commit = agent_of(rounds=[]).name, transitions.Change.commit
    others: list[Rival] = []

    def meanwhile(change: transitions.Change) -> None:
        commit(change)
        if not others:
            others.append(Rival(lambda: start(machine, agent)))
            others[0].start()
            assert isinstance(others[0].result(), Session), "it ends while the first has not committed"

    monkeypatch.setattr(transitions.Change, "commit", meanwhile)
    start(machine, agent)
    assert Session.objects.count() == 2


@pytest.mark.parametrize("first_is_a", [True, False])
def test_two_sessions_of_one_agent_share_the_last_request(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, first_is_a: bool
) -> None:
    limit(machine, max_pending_approvals=3)
    calls = [Call("move_money", {"to": to}) for to in "xy"]
    agent = agent_of(Counter(), policy=Gate(move_money="require_approval"), rounds=[calls])
    a, b = machine.start(agent, run=False), machine.start(agent, run=False)
    leases = {session.pk: machine.claim(session, f"worker-{n}") for n, session in enumerate((a, b))}
    first, second = (a, b) if first_is_a else (b, a)

    def step(session: Session) -> Any:
        proposed = [ProposedCall(f"c{n}", call.tool, call.arguments) for n, call in enumerate(calls)]
        judged = [judge(agent, session, call) for call in proposed]
        return record_step(leases[session.pk], {"kind": "response", "parts": []}, {}, judged, 3)

    race(monkeypatch, lambda: step(first), lambda: step(second))
    assert Approval.objects.filter(state="pending").count() == 3
    assert [call.state for call in machine.calls(first)] == ["awaiting_approval"] * 2
    assert [call.state for call in machine.calls(second)] == ["awaiting_approval", "blocked"]
    second.refresh_from_db()
    assert second.interruption == "approval_required"
