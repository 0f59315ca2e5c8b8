"""`doctor` says what is stuck, why and what to do, and nothing where nothing is."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core import checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.utils import OperationalError
from django.test.utils import CaptureQueriesContext
from django_q.models import OrmQ

from cayu_runtime import Call, Finding, ToolEffect, Verdict, registry
from cayu_runtime.core import clock, doorbell
from cayu_runtime.management.diagnosis import deployment
from cayu_runtime.models import Attempt, DispatchPause, EffectRecord, Session, Worker
from cayu_runtime.services.pause import pause_dispatch
from cayu_runtime.services.session import abandon_session, interrupt_session
from cayu_runtime.services.tenant import limit_tenant
from tests import rows
from tests.db.test_quarantine import ASK, ask_all, operator, restore
from tests.machine import Counter, Gate, Machine, agent_of
from tests.settling import Adapter, Downstream, Looks, unknown

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def quiet_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system checks say of this test's settings is not what is tested here."""
    monkeypatch.setattr(checks, "run_checks", lambda **kwargs: [])


@pytest.fixture
def at_work(machine: Machine) -> Machine:
    """A tenant, and a worker that is heard."""
    rows.worker(beat_at=clock.now(), started_at=clock.now() - timedelta(hours=1))
    return machine


def examine(machine: Machine, *scope: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code, and the findings by code."""
    out = StringIO()
    code = 0
    try:
        call_command("doctor", *(scope or ("--tenant", machine.tenant.slug)), "--json", stdout=out)
    except SystemExit as end:
        code = int(str(end.code))
    said = json.loads(out.getvalue())
    assert said["exit_code"] == code
    assert all(one["what"] and one["do"] for one in said["findings"])
    return code, {one["code"]: one for one in said["findings"]}


def text_of(machine: Machine) -> str:
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--tenant", machine.tenant.slug, stdout=out)
    return out.getvalue()


def test_nothing_is_stuck_where_people_and_workers_do_their_work(at_work):
    at_work.start(agent_of(Counter(), policy=Gate()))
    at_work.start(agent_of(Counter(), policy=ASK))
    assert examine(at_work) == (0, {})
    out = StringIO()
    call_command("doctor", "--all-tenants", stdout=out)
    assert out.getvalue() == "Nothing is stuck.\n"


def test_no_worker_is_broken(machine):
    rows.worker(beat_at=clock.now() - timedelta(minutes=5))
    rows.worker(beat_at=clock.now(), ended_at=clock.now())
    code, found = examine(machine)
    assert (code, set(found)) == (2, {"no_worker"})
    assert "manage.py worker" in found["no_worker"]["do"]


@pytest.mark.parametrize("what", ["lease", "pending", "approval", "question"])
def test_what_the_sweep_should_have_moved_is_broken(at_work, what):
    ago = clock.now() - timedelta(minutes=10)
    made = {
        "lease": lambda: rows.session("running", lease_until=ago),
        "pending": lambda: rows.session("pending", runnable_at=ago),
        "approval": lambda: rows.approval(expires_at=ago, created_at=ago - timedelta(hours=1)),
        "question": lambda: rows.question(expires_at=ago, created_at=ago - timedelta(hours=1)),
    }
    made[what]()
    code, found = examine(at_work)
    assert (code, "unswept" in found) == (2, True)


def test_a_queue_before_busy_workers_is_no_fault(at_work):
    Worker.objects.update(busy_since=clock.now())
    rows.session("pending", runnable_at=clock.now() - timedelta(minutes=10))
    code, found = examine(at_work)
    assert (code, found["busy"]["level"]) == (0, "note")


def test_wake_ups_that_an_idle_worker_leaves_lying_are_broken(at_work, monkeypatch):
    monkeypatch.setattr(deployment, "BELLS", 3)
    doorbell.ring_all([rows.session("completed").pk for _ in range(3)])
    OrmQ.objects.update(lock=clock.now() - timedelta(minutes=2))
    assert examine(at_work)[1]["queue"]["level"] == "broken"


def test_a_database_that_does_not_answer_is_broken_and_says_so(at_work, monkeypatch):
    def away() -> None:
        raise OperationalError("connection refused\nsecond line")

    monkeypatch.setattr(deployment, "missing_migrations", away)
    code, found = examine(at_work)
    assert (code, found["database"]["what"]) == (2, "The database does not answer (connection refused).")


def test_migrations_that_are_missing_are_all_that_is_said(at_work):
    ((_, newest),) = MigrationLoader(connection).graph.leaf_nodes("cayu_runtime")
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'cayu_runtime' AND name = %s", [newest])
    code, found = examine(at_work)
    assert (code, found["migrations"]["items"]) == (2, [f"cayu_runtime.{newest}"])


def test_what_the_system_checks_find_is_told(at_work, monkeypatch):
    said = [
        checks.Error("may lose a commit", hint="Set fsync = on", id="cayu.E010"),
        checks.Warning("nobody can look it up", hint="Give it a reconciler", id="cayu.W010"),
        checks.Warning("not ours", id="other.W001"),
    ]
    monkeypatch.setattr(checks, "run_checks", lambda **kwargs: said)
    code, found = examine(at_work)
    assert (code, {name: one["level"] for name, one in found.items()}) == (
        2, {"cayu.E010": "broken", "cayu.W010": "note"},
    )  # fmt: skip


def test_a_lifted_trigger_is_broken(at_work):
    table = "cayu_runtime_event"
    on_postgresql = connection.vendor == "postgresql"
    name = f"cayu_append_only_row ON {table}" if on_postgresql else f"cayu_append_only_update_{table}"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}")
    assert examine(at_work)[1]["triggers"]["items"][0].startswith(table)


def test_a_pause_names_the_command_that_lifts_it(at_work):
    pause_dispatch(operator(at_work), reason="maintenance", tenant=at_work.tenant, tool="move_money")
    code, found = examine(at_work)
    assert code == 1
    assert found["paused"]["do"] == f"manage.py dispatch resume --tenant {at_work.tenant.slug} --tool move_money"


def test_a_quarantine_says_what_is_left_and_then_that_it_can_be_released(at_work):
    session = at_work.start(agent_of(Downstream(Adapter(Finding.CONFIRMED_DONE)), policy=ASK))
    restore(at_work)
    found = examine(at_work)[1]
    assert found["quarantine"]["items"] == [f"effect {at_work.effect(session).pk}"]
    assert "recovery quarantine --tenant" in found["quarantine"]["do"]
    ask_all(at_work)
    code, found = examine(at_work)
    assert (code, found["quarantine"]["items"]) == (1, [])
    assert "recovery release --tenant" in found["quarantine"]["do"]
    assert found["stopped_operator_requested"]["level"] == "note"
    assert DispatchPause.objects.count() == 1


def test_uncertain_effects_are_told_by_what_can_be_done(at_work):
    def doubtful(to: str, tool: Downstream) -> EffectRecord:
        agent = agent_of(tool, policy=Gate(), rounds=[[Call("move_money", {"to": to})]])
        return at_work.effect(at_work.start(agent))

    looked = [doubtful(to, Downstream(Adapter())) for to in ("a", "b")]
    review = doubtful("c", Downstream(Adapter()))
    EffectRecord.objects.filter(pk=review.pk).update(state="manual_review")
    by_hand = doubtful("d", Downstream(None))
    session = doubtful("e", Downstream(Adapter())).session
    abandon_session(at_work.tenant, at_work.bob, session.session_id, reason="enough")
    with clock.shifted(timedelta(days=3)):
        code, found = examine(at_work)
    assert code in (1, 2)  # by the shifted clock the worker was not heard either
    assert [len(found[f"uncertain_{name}"]["items"]) for name in ("lookup", "review", "by_hand")] == [2, 1, 1]
    assert "3 days" in found["uncertain_lookup"]["what"]
    assert str(looked[0].pk) in found["uncertain_lookup"]["items"][0]
    assert str(by_hand.pk) in found["uncertain_by_hand"]["items"][0]


def test_a_lookup_that_broke_off_is_found(at_work):
    _, effect = unknown(at_work, Downstream(Adapter()))
    rows.attempt(effect=effect, admitted_at=clock.now() - timedelta(minutes=5))
    assert examine(at_work)[1]["unfinished_lookup"]["level"] == "people"
    Attempt.objects.filter(state="admitted").update(admitted_at=clock.now())
    assert "unfinished_lookup" not in examine(at_work)[1]


def test_a_receipt_that_nobody_verifies_is_found_unless_somebody_holds_its_session(at_work):
    tool = Downstream(None, losses=0, verifier=Looks(Verdict.PASSED))
    session = at_work.start(agent_of(tool, policy=Gate()))
    waits = rows.session("pending", tenant=at_work.tenant)
    effect = rows.effect("receipted", call=rows.call("dispatched", session=waits))
    assert examine(at_work)[1]["unverified"]["items"] == [f"effect {effect.pk}, session {effect.session.session_id}"]
    Session.objects.filter(pk=effect.session_id).update(**{**rows.LEASE, "state": "running", "runnable_at": None})
    assert "unverified" not in examine(at_work)[1]
    assert session.state == "completed"


@pytest.mark.parametrize("why", ["worker_lost", "model_unavailable", "limit_reached"])
def test_a_session_that_was_stopped_waits_for_a_person(at_work, why):
    stopped = rows.session("interrupted", tenant=at_work.tenant, interruption=why, stopped_by=why)
    code, found = examine(at_work)
    assert (code, found[f"stopped_{why}"]["items"]) == (1, [f"session {stopped.session_id}"])


def test_one_that_a_person_stopped_is_only_noted_and_one_that_ended_is_not(at_work):
    session = at_work.start(agent_of(Counter(), policy=ASK))
    interrupt_session(at_work.tenant, at_work.bob, session.session_id, reason="enough")
    code, found = examine(at_work)
    assert (code, set(found)) == (0, {"stopped_operator_requested"})


def test_what_is_taken_over_or_tried_again_is_noted(at_work):
    rows.session("running", tenant=at_work.tenant, stalls=1, lease_until=clock.now() + timedelta(seconds=10))
    rows.session("pending", tenant=at_work.tenant, model_failures=2, runnable_at=clock.now() + timedelta(minutes=1))
    code, found = examine(at_work)
    assert (code, {name: one["level"] for name, one in found.items()}) == (
        0,
        {"stalled": "note", "backing_off": "note"},
    )


def test_what_expires_soon_waits_for_a_person(at_work):
    session = at_work.start(agent_of(Counter(), policy=Gate(move_money=("require_approval", 3600))))
    asked = rows.session("interrupted", tenant=at_work.tenant, agent=session.agent)
    call = rows.call("awaiting_answer", session=asked, effect_class="none", tool="move_money")
    rows.question(call=call, agent=session.agent, expires_at=clock.now() + timedelta(hours=1), created_at=clock.now())
    code, found = examine(at_work)
    assert code == 1
    assert {"expiring_approvals", "expiring_questions"} <= set(found)


def test_an_agent_and_a_tool_that_this_build_lacks(at_work):
    tool = Counter(effect=ToolEffect.EXTERNAL)
    session = at_work.start(agent_of(tool, policy=ASK))
    agent = registry.agents()[session.agent]
    registry.register_for_test(type(agent)(name=agent.name, model=agent.model, tools=(Counter("other"),)))
    code, found = examine(at_work)
    assert (code, found["unknown_tool"]["items"]) == (1, [f"tool move_money of agent {agent.name}"])
    del registry.agents()[session.agent]
    code, found = examine(at_work)
    assert (code, found["unknown_agent"]["items"]) == (2, [f"agent {session.agent}"])


def test_another_tenant_is_not_looked_at_unless_asked_for(at_work):
    other = Machine()
    unknown(other, Downstream(Adapter()))
    assert examine(at_work)[0] == 0
    assert examine(at_work, "--all-tenants")[1]["uncertain_lookup"]["tenant"] == other.tenant.slug


def test_people_read_one_line_for_each_and_what_to_do(at_work):
    unknown(at_work, Downstream(Adapter()))
    said = text_of(at_work)
    assert said.startswith(f"PEOPLE  [{at_work.tenant.slug}] Uncertain effects: 1, the oldest for 0 minutes;")
    assert "→ Look each up on its page" in said


def test_it_counts_nothing_and_asks_no_more_where_more_is(at_work):
    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as seen:
            examine(at_work)
        return [query["sql"] for query in seen.captured_queries]

    few = queries()
    for _ in range(30):
        rows.effect("outcome_unknown", call=rows.call("outcome_unknown", session=rows.session(tenant=at_work.tenant)))
        rows.approval(call=rows.call("awaiting_approval", session=rows.session(tenant=at_work.tenant)))
    many = queries()
    assert len(many) == len(few)
    assert not [sql for sql in many if "COUNT(" in sql.upper()]
    assert all("LIMIT" in sql for sql in many if "cayu_runtime_effectrecord" in sql and "sqlite_master" not in sql)


def test_it_needs_to_know_whose(db):
    with pytest.raises(CommandError, match="required"):
        call_command("doctor")
    with pytest.raises(CommandError, match="There is no tenant 'x'"):
        call_command("doctor", "--tenant", "x")


def test_a_limit_of_the_tenant_that_is_reached_is_a_note(at_work):
    limit_tenant(at_work.bob, at_work.tenant, {"max_running_sessions": 2, "max_pending_approvals": 1}, reason="small")
    agent = agent_of(Counter(), policy=ASK)
    at_work.start(agent)
    code, found = examine(at_work)
    assert (code, set(found)) == (0, {"limit_approvals"})
    assert found["limit_approvals"]["items"] == [f"agent {agent.name}"]
    at_work.tenant.refresh_from_db()
    at_work.start(agent_of(Counter(), policy=ASK))
    code, found = examine(at_work)
    assert (code, set(found)) == (0, {"limit_approvals", "limit_running"})
    assert "2 sessions have not ended" in found["limit_running"]["what"]
