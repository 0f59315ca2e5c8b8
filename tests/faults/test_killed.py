"""kill -9 of a worker at every kind of call and between every pair of commits, and of each other part of a cluster."""

from __future__ import annotations

import os
import signal
import time

import pytest

from cayu_runtime.models import Event
from tests.faults.deployment import Deployment, Supervisor, until, until_gone

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

LEASE = 1
# A dead lease is taken over at its end: the sweep sees it within a second, and a worker answers.
TRUE_STATE_SECONDS = LEASE + 3.0


@pytest.fixture(scope="module")
def supervisor(deployment: Deployment) -> Supervisor:
    started = deployment.supervise(workers=3, CAYU_LEASE_SECONDS=str(LEASE))
    started.until_ready(3)
    return started


def test_a_killed_worker_costs_each_call_what_its_effect_declares(deployment: Deployment, supervisor: Supervisor):
    """B1, B2."""
    look = deployment.start([("look", "hold a")])
    label, pay = deployment.approved([("label", "hold a")]), deployment.approved([("pay", "hold a")])
    for session in (look, label, pay):
        os.kill(deployment.until_begun(session), signal.SIGKILL)
    deployment.release("a")

    deployment.until_state(pay, "effect_outcome_unknown")
    deployment.until_state(look, "completed")
    deployment.until_state(label, "completed")
    first, second = deployment.journal(label)
    assert (first["key"], first["replayed"], second["replayed"]) == (second["key"], False, True)
    assert [line["replayed"] for line in deployment.journal(look)] == [False, True]
    assert len(deployment.journal(pay)) == 1
    assert Event.objects.filter(session=pay, type="model.completed").count() == 1


def test_a_lost_worker_s_session_is_in_its_true_state_soon_after_the_lease(
    deployment: Deployment, supervisor: Supervisor
):
    supervisor.until_ready(3)
    pay = deployment.approved([("pay", "hold never")])
    os.kill(deployment.until_begun(pay), signal.SIGKILL)
    killed = time.monotonic()
    deployment.until_state(pay, "effect_outcome_unknown")
    assert time.monotonic() - killed <= TRUE_STATE_SECONDS


def test_a_tool_or_a_model_step_that_kills_its_worker_every_time_is_ended_by_its_own_counter(
    deployment: Deployment, supervisor: Supervisor
):
    """B13, and the second half of B1."""
    look, label, pay, step = (deployment.start([(tool, "die")]) for tool in ("look", "label", "pay", "model"))
    deployment.until_state(step, "worker_lost", seconds=40)
    assert deployment.events(step).count("session.claimed_after_crash") == 3
    deployment.until_state(look, "completed")
    deployment.until_state(label, "effect_outcome_unknown")
    deployment.until_state(pay, "effect_outcome_unknown")
    assert [(call.state, call.reason) for call in deployment.calls(look)] == [("failed", "worker_lost")]
    assert [len(deployment.journal(session)) for session in (look, label, pay)] == [2, 2, 1]


def test_killed_between_two_commits_the_state_is_the_one_before_or_the_one_after(
    deployment: Deployment, supervisor: Supervisor
):
    """B3, B4, and B7 for a gated EXTERNAL call: T3 and T4, each from both sides."""
    places = {"before-T3": 2, "after-T3": 0, "before-T4": 1, "after-T4": 2}
    sessions = {place: deployment.start([("pay", "go"), ("pay", "go")], agent="gated") for place in places}
    for place, session in sessions.items():
        deployment.die(place, session)
        deployment.approve(session)
    for place, runs in places.items():
        session = deployment.until_state(sessions[place], "completed" if runs == 2 else "effect_outcome_unknown")
        operations = [line["operation"] for line in deployment.journal(session)]
        assert (len(operations), len(set(operations))) == (runs, runs), place
        assert "session.claimed_after_crash" in deployment.events(session)


def test_workers_killed_between_two_decisions_of_one_round_cost_nothing(deployment: Deployment, supervisor: Supervisor):
    """A9."""
    session = deployment.start([("pay", "go"), ("pay", "go")], agent="gated")
    first, second = until("both are asked for", lambda: deployment.asked(session))
    deployment.decide(first)
    before = supervisor.until_ready(3)
    for cluster in before:
        os.kill(cluster.worker, signal.SIGKILL)
    until_gone([cluster.worker for cluster in before], 5)
    assert not deployment.journal(session)
    deployment.decide(second)
    deployment.until_state(session, "completed")
    assert len({line["operation"] for line in deployment.journal(session)}) == len(deployment.journal(session)) == 2


def test_an_idle_cluster_that_loses_a_part_is_replaced_as_a_whole(deployment: Deployment, supervisor: Supervisor):
    for parts in (("guard", "monitor", "pusher"), ("worker", "worker", "worker")):
        before = supervisor.until_ready(3)
        killed = [pid for cluster in before for pid in cluster.parts().values()]
        for part, cluster in zip(parts, before, strict=True):
            os.kill(cluster.parts()[part], signal.SIGKILL)
        for cluster in before:
            supervisor.until_said("cluster.lost", 3, pid=cluster.guard)
        until_gone(killed, 5)
        deployment.until_state(deployment.start([("look", "go")]), "completed", seconds=10)


def test_a_part_that_is_told_to_end_by_somebody_else_ends_its_cluster(deployment: Deployment, supervisor: Supervisor):
    """A worker that leaves answers wake-ups and runs nothing: it must not stay."""
    before = supervisor.until_ready(3)
    os.kill(before[0].worker, signal.SIGTERM)
    os.kill(before[1].guard, signal.SIGTERM)
    for cluster in before[:2]:
        assert supervisor.until_said("cluster.lost", 3, pid=cluster.guard)["why"] == "somebody told it to leave"
    until_gone([before[0].worker, before[1].worker], 3)


def test_a_busy_worker_whose_cluster_loses_another_part_ends_its_tool_first(
    deployment: Deployment, supervisor: Supervisor
):
    supervisor.until_ready(3)
    parts = ("guard", "monitor", "pusher")
    sessions = {part: deployment.approved([("pay", "hold b"), ("look", "go")]) for part in parts}
    workers = {part: deployment.until_begun(session) for part, session in sessions.items()}
    clusters = {cluster.worker: cluster for cluster in supervisor.clusters()}
    for part, worker in workers.items():
        cluster = clusters[worker]
        os.kill(cluster.parts()[part], signal.SIGKILL)
        supervisor.until_said("cluster.lost", 3, pid=cluster.guard)
    deployment.release("b")
    for part, session in sessions.items():
        deployment.until_state(session, "completed")
        paid, looked = deployment.journal(session)
        assert paid["pid"] == workers[part] != looked["pid"]
    until_gone(workers.values(), 5)
