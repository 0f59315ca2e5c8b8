"""The supervisor's end: asked to (SIGTERM), told to (a second one), killed, and its workers stopped in mid-call."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import psutil
import pytest
from django.db import connection

from cayu_runtime.models import Attempt, Worker
from cayu_runtime.services.effect import Seen, look_up_effect
from tests.faults.deployment import Deployment, Supervisor, is_alive, until, until_gone
from tests.settling import long_after

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]


def the_supervisor_alone(supervisor: Supervisor) -> None:
    supervisor.process.send_signal(signal.SIGTERM)


def every_process(supervisor: Supervisor) -> None:
    """As a service manager does that ends a whole control group."""
    for process in supervisor.everything():
        process.send_signal(signal.SIGTERM)


def test_asked_to_end_it_begins_nothing_ends_what_runs_and_gives_the_session_back(deployment: Deployment):
    """B16, twice at the same time: two supervisors, one asked alone, one with all its processes."""
    asked: list[tuple[Callable[[Supervisor], None], str]] = [(the_supervisor_alone, "a"), (every_process, "b")]
    supervisors = []
    for ask, name in asked:
        supervisor = deployment.supervise(workers=1)
        supervisor.until_ready(1)
        session = deployment.approved([("pay", f"hold {name}"), ("pay", "go")], [("look", "go")])
        deployment.until_begun(session)
        supervisors.append((supervisor, session, supervisor.everything(), ask, name))
    late = deployment.start([("look", "go")])
    for supervisor, _, _, ask, _ in supervisors:
        ask(supervisor)
        supervisor.until_said("worker.draining")
    until("both are on record", lambda: Worker.objects.filter(leaving=True, busy_since__isnull=False).count() == 2)
    for supervisor, session, processes, _, name in supervisors:
        deployment.release(name)
        assert supervisor.process.wait(10) == 0
        assert supervisor.said("worker.ended", cut_off=0)
        until_gone([process.pid for process in processes], 3)
        session.refresh_from_db()
        assert [call.state for call in deployment.calls(session)] == ["completed", "prepared"]
        assert (session.state, session.lease_owner) == ("pending", None)
        assert len(deployment.journal(session)) == 1
    late.refresh_from_db()
    assert (late.state, late.fence) == ("pending", 0)
    assert not Worker.objects.filter(ended_at=None).exists()

    deployment.supervise(workers=1)
    for session in (late, *(one[1] for one in supervisors)):
        deployment.until_state(session, "completed")
    assert {len(deployment.journal(one[1])) for one in supervisors} == {3}
    end_last(deployment)


def test_a_rolling_restart_under_load_leaves_nothing_unknown(deployment: Deployment):
    """B16."""
    supervisor = deployment.supervise(workers=2)
    sessions = [deployment.start([("pay", "work 0.2"), ("label", "work 0.1"), ("pay", "go")]) for _ in range(24)]
    for _ in range(2):
        begun = len(deployment.journal())

        def works(least: int = begun) -> bool:
            return len(deployment.journal()) > least + 4

        until("it works", works)
        following = deployment.supervise(workers=2)
        assert supervisor.end() == 0
        supervisor = following
    for session in sessions:
        deployment.until_state(session, "completed")
        assert [line["tool"] for line in deployment.journal(session)] == ["pay", "label", "pay"]
    assert supervisor.end() == 0


def test_asked_twice_it_ends_at_once_and_what_ran_is_lost_like_any_other(deployment: Deployment):
    supervisor = deployment.supervise(workers=1)
    supervisor.until_ready(1)
    session = deployment.approved([("pay", "hold c")])
    worker = deployment.until_begun(session)
    supervisor.process.send_signal(signal.SIGTERM)
    supervisor.until_said("worker.draining")
    supervisor.process.send_signal(signal.SIGINT)
    assert supervisor.process.wait(5) == 1
    assert supervisor.said("cluster.cut_off")
    assert not is_alive(worker)
    deployment.supervise(workers=1)
    deployment.until_state(session, "effect_outcome_unknown")
    end_last(deployment)


def test_the_end_of_the_drain_time_is_the_end(deployment: Deployment):
    supervisor = deployment.supervise(workers=1, CAYU_DRAIN_SECONDS="1")
    supervisor.until_ready(1)
    session = deployment.start([("look", "hold d")])
    deployment.until_begun(session)
    assert supervisor.end(seconds=5) == 1
    assert supervisor.said("worker.ended", cut_off=1)
    deployment.release("d")


def test_orphans_begin_nothing_end_what_they_run_and_go(deployment: Deployment):
    supervisor = deployment.supervise(workers=2)
    idle = {cluster.worker: cluster for cluster in supervisor.until_ready(2)}
    session = deployment.approved([("pay", "hold e"), ("pay", "go")])
    busy = idle.pop(deployment.until_begun(session))
    gone = [pid for cluster in idle.values() for pid in cluster.parts().values()]
    others = [pid for part, pid in busy.parts().items() if part != "worker"]
    supervisor.kill()
    until_gone([*others, *gone], 3)
    late = deployment.start([("look", "go")])
    assert is_alive(busy.worker)
    deployment.release("e")
    until_gone([busy.worker], 5)
    session.refresh_from_db()
    late.refresh_from_db()
    assert [call.state for call in deployment.calls(session)] == ["completed", "prepared"]
    assert (session.state, late.fence) == ("pending", 0)

    deployment.supervise(workers=1)
    deployment.until_state(session, "completed")
    deployment.until_state(late, "completed")
    assert [line["pid"] == busy.worker for line in deployment.journal(session)] == [True, False]
    end_last(deployment)


def test_a_worker_that_stood_still_for_twice_the_lease_dispatches_nothing_more(deployment: Deployment):
    """B6, B5: another one says what is true; what the first knows is kept as evidence and settles it."""
    supervisor = deployment.supervise(workers=2, CAYU_LEASE_SECONDS="1")
    supervisor.until_ready(2)
    session = deployment.approved([("pay", "hold f"), ("pay", "go")])
    worker = psutil.Process(deployment.until_begun(session))
    worker.suspend()
    stopped = time.monotonic()
    deployment.until_state(session, "effect_outcome_unknown", seconds=6)
    until("twice the lease is over", lambda: time.monotonic() - stopped > 2)
    deployment.release("f")
    worker.resume()
    deployment.until_state(session, "completed")
    assert len({line["operation"] for line in deployment.journal(session)}) == len(deployment.journal(session)) == 2
    late = Attempt.objects.get(effect__session=session, kind="late_outcome")
    assert late.state == "selected"
    assert supervisor.end() == 0


def stand_still(processes: list[psutil.Process]) -> bool:
    """Stop them, unless one of them was inside a transaction at that moment: then they go on. Its row would wait."""
    for process in processes:
        process.suspend()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND xact_start IS NOT NULL"
        )
        (inside,) = cursor.fetchone()
    if inside:
        for process in processes:
            process.resume()
    return not inside


def test_no_absence_counts_while_the_worker_that_stands_still_may_go_on(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
):
    """C15: the lookup says no, long after every deadline, and yet the effect comes."""
    monkeypatch.setenv("CAYU_FAULTS_FOLDER", str(deployment.folder))
    first = deployment.supervise(workers=1, CAYU_LEASE_SECONDS="1")
    first.until_ready(1)
    session = deployment.approved([("pay", "hold g")])
    stopped = [psutil.Process(first.pid), psutil.Process(deployment.until_begun(session))]
    until("they stand still, and hold no row", lambda: stand_still(stopped))  # a supervisor would end such a worker
    second = deployment.supervise(workers=1, CAYU_LEASE_SECONDS="1")
    deployment.until_state(session, "effect_outcome_unknown", seconds=50)
    effect = deployment.effect(session)
    seen = Seen(effect.revision, effect.dispatch_id)
    with long_after():
        said = look_up_effect(deployment.tenant, deployment.bob, effect.id, seen, reason="no answer came")
    effect.refresh_from_db()
    assert (said.finding, effect.state) == ("not_found", "outcome_unknown")
    assert said.attempt.evidence["said"] == "absent"
    deployment.release("g")
    for process in stopped:
        process.resume()
    deployment.until_state(session, "completed")
    effect.refresh_from_db()
    assert (effect.state, effect.dispatches) == ("completed", 1)
    assert len(deployment.journal(session, "ended")) == 1
    assert {first.end(), second.end()} == {0}


def test_a_worker_that_stands_still_for_good_is_replaced(deployment: Deployment):
    supervisor = deployment.supervise(workers=1)
    cluster = supervisor.until_ready(1)[0]
    os.kill(cluster.worker, signal.SIGSTOP)
    stopped = time.monotonic()
    session = deployment.start([("look", "go")])
    deployment.until_state(session, "completed")
    assert supervisor.said("cluster.lost", pid=cluster.guard)[0]["why"].endswith("while work waits")
    assert time.monotonic() - stopped < 20
    assert supervisor.end() == 0


def end_last(deployment: Deployment) -> None:
    assert deployment.supervisors[-1].end() == 0
