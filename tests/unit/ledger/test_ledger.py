"""The demo ledger as real processes see it: over HTTP, and by reading its file."""

import json
import socket
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from cayu_project.demo.ledger import Fault, Server, page
from cayu_project.demo.ledger_file import Ledger, Order, Refund
from tests.unit.ledger.observer import BODY, arrived, book, booked, rows


def test_books_a_refund(client: httpx.Client, db: Path) -> None:
    answer = book(client)
    assert answer.status_code == 201
    refund = answer.json()
    assert refund.pop("refund_id").startswith("rf_")
    assert refund.pop("booked_at").endswith("+00:00")
    assert refund == BODY | {"idempotency_key": "k1", "status": "booked", "replayed": False}
    assert booked(db) == [("k1", "1042", "25.50")]
    assert arrived(db) == [("k1", "1042", None)]


def test_the_same_key_and_body_answer_what_is_recorded(client: httpx.Client, db: Path) -> None:
    first, second = book(client), book(client, amount="25.5")
    assert second.status_code == 200
    assert second.json() == first.json() | {"replayed": True}
    assert len(booked(db)) == 1
    assert len(arrived(db)) == 2


@pytest.mark.parametrize("change", [{"order_id": "1043"}, {"amount": "25.51"}, {"reason": "late"}])
def test_the_same_key_with_another_body_conflicts(client: httpx.Client, db: Path, change: dict[str, str]) -> None:
    book(client)
    answer = book(client, **change)
    assert answer.status_code == 409
    assert "Use a new key." in answer.json()["error"]
    assert booked(db) == [("k1", "1042", "25.50")]


def test_another_key_for_the_same_order_is_another_refund(client: httpx.Client, db: Path) -> None:
    assert book(client, "k1").json()["refund_id"] != book(client, "k2").json()["refund_id"]
    assert len(booked(db)) == 2


def test_one_key_from_many_sides_at_once_is_booked_once(client: httpx.Client, db: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: book(client).status_code, range(24)))
    assert sorted(answers) == [200] * 23 + [201]
    assert len(booked(db)) == 1
    assert len(arrived(db)) == 24


@pytest.mark.parametrize(
    "fields",
    [
        {"amount": "0"},
        {"amount": "0.00"},
        {"amount": "-1"},
        {"amount": "1.234"},
        {"amount": "1e3"},
        {"amount": "NaN"},
        {"amount": "٢٥"},
        {"amount": "1\n"},
        {"amount": 25.5},
        {"amount": None},
        {"order_id": ""},
        {"order_id": "  "},
        {"order_id": "x" * 101},
        {"order_id": "a\0b"},
        {"order_id": 1042},
        {"reason": None},
        {"reason": "x" * 1001},
        {"currency": "EUR"},
    ],
)
def test_a_bad_field_is_refused_with_a_sentence(client: httpx.Client, db: Path, fields: dict[str, Any]) -> None:
    answer = book(client, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(".")
    assert booked(db) == []
    assert len(arrived(db)) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b"[" * 16000, b'{"order_id": "\\ud800", "amount": "1", "reason": ""}'],
)
def test_a_body_that_cannot_be_read_is_refused(client: httpx.Client, db: Path, content: bytes) -> None:
    answer = client.post("/refunds", content=content, headers={"Idempotency-Key": "k1"})
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(".")
    assert arrived(db) == [("k1", None, None)]


def test_a_body_that_is_too_large_is_refused_with_an_answer(client: httpx.Client, db: Path) -> None:
    answer = book(client, reason="x" * 200_000)
    assert answer.status_code == 400
    assert "too large" in answer.json()["error"]
    assert booked(db) == []


def test_a_body_that_ends_early_books_nothing(server: Server, db: Path) -> None:
    content = json.dumps(BODY).encode()
    head = f"POST /refunds HTTP/1.1\r\nIdempotency-Key: k1\r\nContent-Length: {len(content) + 1}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        connection.sendall(head.encode() + content)
        connection.shutdown(socket.SHUT_WR)
        assert b" 400 " in connection.makefile("rb").readline()
    assert booked(db) == arrived(db) == []


def test_a_length_is_required(client: httpx.Client, db: Path) -> None:
    answer = client.post("/refunds", content=iter([b"{}"]), headers={"Idempotency-Key": "k1"})
    assert answer.status_code == 400
    assert booked(db) == []


def test_a_key_is_required(client: httpx.Client, db: Path) -> None:
    assert client.post("/refunds", json=BODY).status_code == 400
    assert book(client, "two words").status_code == 400
    assert book(client, "x" * 201).status_code == 400
    assert booked(db) == []
    assert len(arrived(db)) == 3


def test_looks_up_by_key(client: httpx.Client) -> None:
    assert client.get("/refunds", params={"key": "k1"}).status_code == 404
    assert client.get("/refunds", params={"key": "k1"}).json() == {"found": False, "barred": False}
    refund = book(client).json()
    del refund["replayed"]
    answer = client.get("/refunds", params={"key": "k1"})
    assert answer.status_code == 200
    assert answer.json() == {"found": True, "refund": refund}


def test_lists_an_order_newest_first(client: httpx.Client) -> None:
    book(client, "k1")
    book(client, "k2", amount="1")
    book(client, "k3", order_id="7")
    refunds = client.get("/refunds", params={"order_id": "1042"}).json()["refunds"]
    assert [(refund["idempotency_key"], refund["amount"]) for refund in refunds] == [("k2", "1.00"), ("k1", "25.50")]


@pytest.mark.parametrize("query", ["", "?order=1", "?key=a&order_id=1"])
def test_an_unclear_question_is_refused(client: httpx.Client, query: str) -> None:
    assert client.get(f"/refunds{query}").status_code == 400


def test_a_barred_key_can_never_be_booked(client: httpx.Client, db: Path) -> None:
    for _ in range(2):
        answer = client.post("/bars", json={"idempotency_key": "k1"})
        assert (answer.status_code, answer.json()) == (200, {"barred": True})
    assert client.get("/refunds", params={"key": "k1"}).json() == {"found": False, "barred": True}
    assert book(client).status_code == 410
    assert booked(db) == []


def test_a_booked_key_cannot_be_barred(client: httpx.Client) -> None:
    refund_id = book(client).json()["refund_id"]
    answer = client.post("/bars", json={"idempotency_key": "k1"})
    assert answer.status_code == 409
    assert answer.json()["barred"] is False
    assert answer.json()["refund"]["refund_id"] == refund_id
    assert book(client).status_code == 200


@pytest.mark.parametrize("body", [{}, {"idempotency_key": ""}, {"idempotency_key": 1}, []])
def test_a_bar_without_a_key_is_refused(client: httpx.Client, body: Any) -> None:
    assert client.post("/bars", json=body).status_code == 400


def test_a_bar_and_a_booking_at_once_have_one_winner(client: httpx.Client, db: Path) -> None:
    """Both start from one barrier, again and again: the two answers must always tell the same story as the file."""
    stories = set()
    for number in range(20):
        key = f"race-{number}"
        barrier = threading.Barrier(2)

        def bar(key: str = key, barrier: threading.Barrier = barrier) -> int:
            barrier.wait()
            return client.post("/bars", json={"idempotency_key": key}).status_code

        def refund(key: str = key, barrier: threading.Barrier = barrier) -> int:
            barrier.wait()
            return book(client, key).status_code

        with ThreadPoolExecutor(2) as pool:
            bar_answer, refund_answer = pool.submit(bar), pool.submit(refund)
        story = (bar_answer.result(), refund_answer.result())
        stories.add(story)
        is_booked = bool(rows(db, f"SELECT 1 FROM refunds WHERE idempotency_key = '{key}'"))
        is_barred = bool(rows(db, f"SELECT 1 FROM bars WHERE idempotency_key = '{key}'"))
        assert (is_booked, is_barred) == (story == (409, 201), story == (200, 410))
    assert stories <= {(409, 201), (200, 410)}


@pytest.mark.parametrize("bar_first", [True, False])
def test_who_waits_for_the_write_lock_sees_what_the_other_did(db: Path, bar_first: bool) -> None:
    """The loser is held at the lock while the winner's row is already written and not yet committed."""
    ledger = Ledger(db)
    ledger.bar("other")
    winner = sqlite3.connect(db, isolation_level=None)
    winner.execute("BEGIN IMMEDIATE")
    if bar_first:
        winner.execute("INSERT INTO bars VALUES ('k1', 'now')")
    else:
        winner.execute("INSERT INTO refunds VALUES ('rf_1', 'k1', '1042', '25.50', 'damaged', 'now')")
    at_the_lock = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        loser = pool.submit(_announced, ledger, at_the_lock, bar_first)
        assert at_the_lock.wait(10)
        assert not loser.done()
        winner.execute("COMMIT")
        winner.close()
        assert loser.result() == (410 if bar_first else "rf_1")


def _announced(ledger: Ledger, at_the_lock: threading.Event, bar_first: bool) -> int | str | None:
    class Announcing(Ledger):
        def _connection(self) -> Any:
            at_the_lock.set()
            return super()._connection()

    waiting = object.__new__(Announcing)
    waiting.path = ledger.path
    if bar_first:
        return waiting.book("k1", Order("1042", "25.50", "damaged"))[0]
    refund = waiting.bar("k1")
    return refund.refund_id if refund else None


@pytest.mark.parametrize(
    "fault, commits", [("drop_before_commit", False), ("drop_after_commit", True)], ids=["before", "after"]
)
def test_a_dropped_request_gets_no_answer(client: httpx.Client, db: Path, fault: str, commits: bool) -> None:
    with pytest.raises(httpx.TransportError):
        book(client, fault=fault)
    assert bool(booked(db)) is commits
    assert arrived(db) == [("k1", "1042", fault)]
    assert client.get("/refunds", params={"key": "k1"}).json()["found"] is commits


@pytest.mark.parametrize("fault, commits", [("error_before", False), ("error_after", True)], ids=["before", "after"])
def test_a_failed_request_answers_500(client: httpx.Client, db: Path, fault: str, commits: bool) -> None:
    assert book(client, fault=fault).status_code == 500
    assert bool(booked(db)) is commits
    assert arrived(db) == [("k1", "1042", fault)]
    assert book(client).status_code == (200 if commits else 201)


def test_a_slow_answer_comes_after_the_commit(client: httpx.Client, server: Server, db: Path) -> None:
    reached = threading.Event()
    let_go = threading.Event()

    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout == 119.5
            reached.set()
            return let_go.wait(timeout)

    server.stopping = Stopping()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(book, client, fault="slow:119.5")
        assert reached.wait(10)
        assert booked(db) == [("k1", "1042", "25.50")]
        assert not answer.done()
        let_go.set()
        assert answer.result().status_code == 201


def test_a_slow_answer_is_really_late(client: httpx.Client) -> None:
    answer = book(client, fault="slow:0.2")
    assert answer.elapsed.total_seconds() >= 0.2


def test_slowness_is_capped() -> None:
    assert Fault.parse("slow:999999") == Fault("slow", 120.0)
    assert Fault.parse("slow:0") == Fault("slow", 0.0)


@pytest.mark.parametrize("fault", ["explode", "slow", "slow:", "slow:-1", "slow:nan", "slow:1e9", "Drop_after_commit"])
def test_an_unknown_fault_is_refused(client: httpx.Client, db: Path, fault: str) -> None:
    answer = book(client, fault=fault)
    assert answer.status_code == 400
    assert booked(db) == []


def test_the_page_shows_refunds_newest_first(client: httpx.Client) -> None:
    assert "No refund has been booked yet." in client.get("/").text
    book(client, "k1", order_id="older")
    book(client, "k2", order_id="newer")
    answer = client.get("/")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.text.index("newer") < answer.text.index("older")
    assert "k1" not in answer.text


def test_the_page_escapes_what_people_typed() -> None:
    evil = "<script>\"&'"
    text = page([Refund(evil, evil, evil, evil, evil, "2026-01-01T00:00:00.000000+00:00")])
    assert "<script" not in text
    assert "&lt;script&gt;&quot;&amp;&#x27;" in text


def test_the_page_shows_at_most_a_hundred(client: httpx.Client, db: Path) -> None:
    connection = sqlite3.connect(db)
    with connection:
        connection.executemany(
            "INSERT INTO refunds VALUES (?, ?, '1042', '1.00', '', '2026-01-01T00:00:00.000000+00:00')",
            [(f"rf_{number}", f"k{number}") for number in range(101)],
        )
    connection.close()
    text = client.get("/").text
    assert text.count("<td>1042</td>") == 100
    assert "rf_100<" in text
    assert "rf_0<" not in text


def test_health_and_unknown_addresses(client: httpx.Client) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/nothing").status_code == 404
    assert client.post("/", json={}).status_code == 404


def test_what_is_no_http_gets_an_answer(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(b"GARBAGE\r\n\r\n")
        assert b"Error code: 400" in connection.makefile("rb").read()
    assert "Traceback" not in capfd.readouterr().err
