"""Whose turn it is when a worker is free, and when a session that runs has to give way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django_q.models import OrmQ

from cayu_runtime import Call, ToolContext, ToolEffect, ToolResult
from cayu_runtime.core import clock, engine
from cayu_runtime.core.lease import due
from cayu_runtime.models import Attempt, Session, Tenant
from cayu_runtime.worker import tasks, turns
from cayu_runtime.worker.duty import current
from cayu_runtime.worker.turns import Slice, Turns
from tests import rows
from tests.machine import Counter, Gate, Machine, agent_of

A_MINUTE = timedelta(minutes=1)
NOBODY = uuid4()


@pytest.fixture
def served(db: None, monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Sessions in the order in which they were run; each is done with one run."""
    order: list[Session] = []

    def run(pk: Any, owner: str, should_yield: Any) -> bool:
        order.append(Session.objects.get(pk=pk))
        done = {"state": "completed", "finished_at": rows.NOW, "runnable_at": None, "lease_owner": None}
        return Session.objects.filter(due(clock.now()), pk=pk).update(**done, lease_until=None) == 1

    monkeypatch.setattr(engine, "run_session", run)
    return order


def test_two_hundred_sessions_of_one_tenant_do_not_keep_the_one_of_another_waiting(served: list[Session]) -> None:
    busy = rows.tenant()
    for n in range(200):
        rows.session("pending", tenant=busy, runnable_at=clock.now() - A_MINUTE + timedelta(milliseconds=n))
    other = rows.session("pending", runnable_at=clock.now())
    one = Turns()
    for _ in range(2):
        one.take("w", NOBODY)
    assert other in served


def test_tenants_take_turns_and_of_each_the_one_that_waited_longest(served: list[Session]) -> None:
    tenants = in_order(*(rows.tenant() for _ in range(3)))
    for age in (1, 3, 2):
        for tenant in tenants:
            rows.session("pending", tenant=tenant, runnable_at=clock.now() - age * A_MINUTE, rounds=age)
    rows.session("running", tenant=tenants[1], lease_until=clock.now() - 4 * A_MINUTE, rounds=4)
    one = Turns()
    while one.take("w", NOBODY):
        pass
    got = [(tenants.index(session.tenant), session.rounds) for session in served]
    assert got == [(0, 3), (1, 4), (2, 3), (0, 2), (1, 3), (2, 2), (0, 1), (1, 2), (2, 1), (1, 1)]


def test_of_one_tenant_the_one_that_the_wakeup_names_comes_first(served: list[Session]) -> None:
    tenants = in_order(rows.tenant(), rows.tenant())
    ages = [(tenant, age) for tenant in tenants for age in (3, 2, 1)]
    rung = [rows.session("pending", tenant=tenant, runnable_at=clock.now() - age * A_MINUTE) for tenant, age in ages]
    one = Turns()
    for named in (rung[1], rung[1], rung[2]):
        one.take("w", named.id)
    assert served == [rung[1], rung[3], rung[2]]


def test_a_session_that_others_took_first_is_passed_over(
    served: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (rows.session("pending", tenant=tenant) for tenant in in_order(rows.tenant(), rows.tenant()))
    run = engine.run_session
    monkeypatch.setattr(
        engine, "run_session", lambda pk, owner, should_yield: pk != first.pk and run(pk, owner, should_yield)
    )
    assert Turns().take("w", NOBODY) is True
    assert served == [second]


def in_order(*tenants: Tenant) -> list[Tenant]:
    return sorted(tenants, key=lambda tenant: tenant.id)


def test_a_session_that_breaks_its_worker_does_not_keep_its_tenant_s_others_waiting(
    served: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = rows.tenant()
    bad = rows.session("pending", tenant=tenant, runnable_at=clock.now() - A_MINUTE)
    good = rows.session("pending", tenant=tenant, runnable_at=clock.now())
    run = engine.run_session

    def broken(pk: Any, owner: str, should_yield: Any) -> bool:
        if pk == bad.pk:
            raise RuntimeError("a row that nobody understands")
        return run(pk, owner, should_yield)

    monkeypatch.setattr(engine, "run_session", broken)
    one = Turns()
    assert [one.take("w", NOBODY) for _ in range(3)] == [True, True, False]
    assert served == [good]


def test_a_wakeup_too_many_costs_two_statements(db: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        tasks.run_session(str(NOBODY))
    assert len(queries) == 2


def test_who_leaves_takes_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    session = machine.start(agent_of(Counter()), run=False)
    monkeypatch.setattr(current, "leaving", True)
    tasks.run_session(str(session.pk))
    session.refresh_from_db()
    assert (session.state, session.fence) == ("pending", 0)


def test_who_has_to_leave_gives_the_session_back_between_two_steps(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told_to_leave_meanwhile(ctx: ToolContext, args: Any) -> ToolResult:
        monkeypatch.setattr(current, "leaving", True)
        return ToolResult("done")

    counter = Counter(effect=ToolEffect.NONE, does=told_to_leave_meanwhile)
    session = machine.start(agent_of(counter, rounds=[[Call("move_money", {})], [Call("move_money", {})]]), run=False)
    OrmQ.objects.all().delete()
    tasks.run_session(str(session.pk))
    session.refresh_from_db()
    assert (session.state, session.lease_owner, counter.count) == ("pending", None, 1)
    assert [row.task["args"][0] for row in OrmQ.objects.all()] == [str(session.pk)]


def test_the_replay_of_an_ambiguous_call_does_not_begin_in_a_worker_that_leaves(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_while_told_to_leave(ctx: ToolContext, args: Any) -> ToolResult:
        if ctx.replayed:
            return ToolResult("done")
        monkeypatch.setattr(current, "leaving", True)
        raise ConnectionError("lost")

    counter = Counter(effect=ToolEffect.IDEMPOTENT, does=fail_while_told_to_leave)
    session = machine.start(agent_of(counter, policy=Gate()), run=False)
    tasks.run_session(str(session.pk))
    session.refresh_from_db()
    assert (session.state, session.lease_owner, counter.count) == ("pending", None, 1)
    assert (machine.calls(session)[0].state, machine.effect(session).state) == ("dispatched", "intent_recorded")

    monkeypatch.setattr(current, "leaving", False)
    tasks.run_session(str(session.pk))
    session.refresh_from_db()
    first, second = counter.seen
    assert (session.state, second.replayed) == ("completed", True)
    assert first.idempotency_key == second.idempotency_key
    attempt = Attempt.objects.get(dispatch_id=first.dispatch_id)
    assert (attempt.state, attempt.evidence["classification"]) == ("superseded", "given_back")


@pytest.mark.django_db
class TestSlice:
    """When a session that runs gives way to another tenant's."""

    @pytest.fixture(autouse=True)
    def _own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tenant = rows.tenant()
        self.now = 100.0
        monkeypatch.setattr(turns.time, "monotonic", lambda: self.now)
        self.slice = Slice(self.tenant.id)

    def test_at_first_nobody_is_asked(self) -> None:
        rows.session("pending", runnable_at=clock.now() - A_MINUTE)
        self.now += turns.FAIR_SECONDS - 0.1
        with CaptureQueriesContext(connection) as queries:
            assert not self.slice.is_over()
        assert len(queries) == 0

    def test_then_another_tenant_s_session_that_waits_ends_it(self) -> None:
        self.now += turns.FAIR_SECONDS
        assert not self.slice.is_over()
        rows.session("pending", runnable_at=clock.now() - A_MINUTE)
        assert not self.slice.is_over()  # asked once a second
        self.now += turns.LOOK_SECONDS
        assert self.slice.is_over()

    @pytest.mark.parametrize("why", ["its own tenant's", "not yet due", "has not waited long", "held by a worker"])
    def test_others_do_not(self, why: str) -> None:
        tenant = self.tenant if why == "its own tenant's" else rows.tenant()
        ages = {"not yet due": -A_MINUTE, "has not waited long": timedelta(seconds=1)}
        if why == "held by a worker":
            rows.session("running")
        else:
            rows.session("pending", runnable_at=clock.now() - ages.get(why, A_MINUTE), tenant=tenant)
        self.now += turns.FAIR_SECONDS
        assert not self.slice.is_over()

    def test_leaving_ends_it_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(current, "leaving", True)
        assert self.slice.is_over()
