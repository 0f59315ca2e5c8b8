from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from django.utils import timezone
from django_q.models import OrmQ

from cayu_runtime.models import Worker
from tests import rows

AN_HOUR = timedelta(hours=1)
AN_HOUR_AGO = rows.NOW - AN_HOUR


def test_live_answers_without_a_database(client: Client) -> None:
    response = client.get("/health/live")
    assert response.status_code == 200
    assert response.json() == {"status": "alive"}
    assert "no-store" in response["Cache-Control"]


@pytest.fixture
def working(db: None) -> Worker:
    return rows.worker(beat_at=timezone.now())


def parts(client: Client) -> dict[str, str]:
    answered: dict[str, str] = client.get("/health/ready").json()["parts"]
    return answered


def test_ready_when_every_part_is(client: Client, working: Worker) -> None:
    response = client.get("/health/ready")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "parts": dict.fromkeys(("database", "migrations", "queue", "workers", "sweep"), "ok"),
    }


@pytest.mark.parametrize("change", [{"beat_at": AN_HOUR_AGO}, {"leaving": True}])
def test_not_ready_when_no_worker_was_heard_that_takes_work(client: Client, db: None, change: dict[str, Any]) -> None:
    rows.worker(**change)
    assert parts(client)["workers"] == "none was heard for 15 seconds"


@pytest.mark.parametrize(
    "overdue",
    [
        lambda: rows.session("running", lease_until=AN_HOUR_AGO),
        lambda: rows.approval("pending", created_at=AN_HOUR_AGO - AN_HOUR, expires_at=AN_HOUR_AGO),
        lambda: rows.session("pending", runnable_at=AN_HOUR_AGO),
    ],
    ids=["a dead lease", "an approval out of time", "a runnable session before an idle worker"],
)
def test_not_ready_when_nobody_sweeps(client: Client, working: Worker, overdue: Any) -> None:
    overdue()
    assert parts(client)["sweep"] == "something is overdue by more than 60 seconds"


def test_a_queue_before_busy_workers_is_no_fault(client: Client, db: None) -> None:
    rows.worker(busy_since=rows.NOW)
    rows.session("pending", runnable_at=AN_HOUR_AGO)
    assert parts(client)["sweep"] == "ok"


@pytest.mark.django_db
def test_not_ready_while_a_migration_is_missing(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'auth'")
    response = client.get("/health/ready")
    assert response.status_code == 503
    assert response.json()["status"] == "not ready"
    assert response.json()["parts"]["migrations"] == "1 not applied"


@pytest.mark.django_db
def test_not_ready_when_the_queue_cannot_be_read_and_no_detail_leaks(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*args: Any) -> bool:
        raise DatabaseError("password authentication failed for user canary")

    monkeypatch.setattr(type(OrmQ.objects.all()), "exists", break_down)
    response = client.get("/health/ready")
    assert response.status_code == 503
    assert response.json()["parts"]["queue"] == "unreachable"
    assert b"canary" not in response.content


def test_probes_are_read_only(client: Client) -> None:
    assert client.post("/health/live").status_code == 405
    assert client.post("/health/ready").status_code == 405
