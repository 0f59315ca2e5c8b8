"""Wake-ups repeated, dropped and queued up, and a database that hangs up, over real workers (B11)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django_q.models import OrmQ

from cayu_runtime.core import doorbell
from cayu_runtime.services.tenant import create_tenant
from tests.faults.deployment import Deployment, Supervisor, is_alive, until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def supervisor(deployment: Deployment) -> Iterator[Supervisor]:
    started = deployment.supervise(workers=2)
    started.until_ready(2)
    yield started
    assert started.end() == 0
    assert not started.said("session.broke_off")


def test_a_hundred_wakeups_at_once_cause_one_run(deployment: Deployment, supervisor: Supervisor):
    session = deployment.start([("pay", "work 0.2"), ("look", "go")])
    doorbell.ring_all([session.pk] * 100)
    deployment.until_state(session, "completed")
    until("all wake-ups are answered", lambda: not OrmQ.objects.exists())
    assert [line["tool"] for line in deployment.journal(session)] == ["pay", "look"]
    assert deployment.events(session).count("session.completed") == 1


def test_without_any_wakeup_the_sweep_finishes_every_session(
    deployment: Deployment, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doorbell, "ring", lambda session: None)
    sessions = [deployment.start([("pay", "go")], agent="gated") for _ in range(10)]
    assert not OrmQ.objects.exists()
    for session in sessions:
        deployment.approve(session)
    for session in sessions:
        deployment.until_state(session, "completed")
        assert len(deployment.journal(session)) == 1


def test_a_busy_tenant_does_not_starve_another(deployment: Deployment, supervisor: Supervisor):
    small = create_tenant("small", "Small Ltd")
    many = [deployment.start([("look", "work 0.1")]) for _ in range(100)]
    other = deployment.start([("look", "go")], tenant=small)
    before = len(deployment.journal())
    deployment.until_state(other, "completed")
    assert len(deployment.journal()) - before <= 10
    ended = {line["session"] for line in deployment.journal()}
    assert len(ended & {session.session_id for session in many}) < 90
    deployment.until_state(many[-1], "completed")


def test_after_the_database_hung_up_on_everybody_work_goes_on_and_nothing_that_ran_is_lost(
    deployment: Deployment, supervisor: Supervisor
):
    """C16, T4: the settlement finds its connection gone."""
    pay = deployment.approved([("pay", "hold h")])
    worker = deployment.until_begun(pay)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert cursor.fetchone()[0] >= 5
    deployment.until_state(deployment.start([("look", "go")]), "completed", seconds=15)
    assert is_alive(worker)
    deployment.release("h")
    deployment.until_state(pay, "completed", seconds=15)
    assert [line["pid"] for line in deployment.journal(pay)] == [worker]
