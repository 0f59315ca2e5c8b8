from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from django_q.models import OrmQ


def test_live_answers_without_a_database(client: Client) -> None:
    response = client.get("/health/live")
    assert response.status_code == 200
    assert response.json() == {"status": "alive"}
    assert "no-store" in response["Cache-Control"]


@pytest.mark.django_db
def test_ready_when_database_migrations_and_queue_are(client: Client) -> None:
    response = client.get("/health/ready")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "parts": {"database": "ok", "migrations": "ok", "queue": "ok"},
    }


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
