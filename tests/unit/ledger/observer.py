"""What the tests ask of a ledger, and what an observer reads in its file."""

import sqlite3
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[3]
BODY = {"order_id": "1042", "amount": "25.50", "reason": "damaged"}


def book(client: httpx.Client, key: str = "k1", fault: str | None = None, **fields: Any) -> httpx.Response:
    headers = {"Idempotency-Key": key} | ({"X-Ledger-Fault": fault} if fault else {})
    return client.post("/refunds", json=BODY | fields, headers=headers)


def rows(db: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(db)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def booked(db: Path) -> list[tuple[Any, ...]]:
    return rows(db, "SELECT idempotency_key, order_id, amount FROM refunds")


def arrived(db: Path) -> list[tuple[Any, ...]]:
    return rows(db, "SELECT idempotency_key, order_id, fault FROM requests ORDER BY id")
