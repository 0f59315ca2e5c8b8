"""The ledger's reconciler, and the generic one configured for the ledger, against the real ledger and against servers
that answer badly.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cayu_project.demo.agents import RefundOrder
from cayu_project.demo.ledger import Server
from cayu_project.demo.reconciler import LedgerReconciler
from cayu_runtime import Finding, Inquiry, Observation, Reconciler, Tool, ToolContext
from tests.unit.ledger.by_configuration import reconciler_for, tool_for
from tests.unit.ledger.observer import BODY, arrived, book, booked
from tests.unit.ledger.test_process import Process

KEY = "k-0123456789"


def inquiry(url: str, seconds: float = 10, key: str = KEY, **changed: Any) -> Inquiry:
    arguments = {**BODY, "simulate": "drop_after_commit", **changed}
    resources = {"ledger": url}
    return Inquiry("op", key, "d1", "t1", "s-1", "refund_order", "1", arguments, None, None, seconds, resources)


@pytest.fixture
def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}"


class Adapter:
    """One of the two, for whatever ledger an inquiry names."""

    def __init__(self, made: Callable[[str], Reconciler], tool: Callable[[str], Tool]) -> None:
        self.made, self.tool = made, tool

    def look_up(self, asked: Inquiry) -> Observation:
        found = self.made(asked.require("ledger")).lookup(asked)
        assert KEY not in json.dumps([found.message, found.evidence, found.result and found.result.structured])
        return found

    def validate(self, receipt: dict[str, Any], asked: Inquiry) -> Observation:
        return self.made(asked.require("ledger")).validate_receipt(receipt, asked)


@pytest.fixture(params=["the ledger's own", "by configuration"])
def adapter(request: pytest.FixtureRequest) -> Adapter:
    if request.param == "by configuration":
        return Adapter(reconciler_for, tool_for)
    return Adapter(lambda url: LedgerReconciler(), lambda url: RefundOrder())


def test_the_tool_has_it() -> None:
    assert isinstance(RefundOrder.reconciler, LedgerReconciler)


def test_a_lost_answer_is_found_in_a_real_ledger_process(adapter: Adapter, db: Path) -> None:
    process = Process(db)
    try:
        ctx = ToolContext("s-1", idempotency_key=KEY, resources={"ledger": process.url})
        with pytest.raises(httpx.TransportError):
            adapter.tool(process.url).run(ctx, {**BODY, "simulate": "drop_after_commit"})
        found = adapter.look_up(inquiry(process.url))
        assert found.finding is Finding.CONFIRMED_DONE
        assert found.result is not None
        structured = found.result.structured
        assert structured is not None
        assert (structured["order_id"], structured["amount"]) == ("1042", "25.50")
        assert found.result.content == f"Booked as {structured['refund_id']}."
        assert len(arrived(db)) == len(booked(db)) == 1, "a lookup books nothing"
    finally:
        process.close()
    assert adapter.look_up(inquiry(process.url)).finding is Finding.UNAVAILABLE


def test_a_lost_request_is_absent_and_barred_so_that_it_books_nothing_later(
    adapter: Adapter, client: httpx.Client, url: str
) -> None:
    with pytest.raises(httpx.TransportError):
        book(client, KEY, fault="drop_before_commit")
    for _ in range(2):
        found = adapter.look_up(inquiry(url))
        assert (found.finding, found.barred) == (Finding.ABSENT, True)
    assert book(client, KEY).status_code == 410


def test_who_judges_a_receipt_bars_nothing(adapter: Adapter, client: httpx.Client, url: str) -> None:
    judged = adapter.validate({"refund_id": "r-1"}, inquiry(url))
    assert judged.finding is Finding.CONFLICT
    assert book(client, KEY).status_code == 201


def test_an_amount_is_compared_as_a_number(adapter: Adapter, client: httpx.Client, url: str) -> None:
    book(client, KEY)
    assert adapter.look_up(inquiry(url, amount="025.50")).finding is Finding.CONFIRMED_DONE


@pytest.mark.parametrize("changed", [{"order_id": "1043"}, {"amount": "25.51"}, {"amount": None}, {"reason": "late"}])
def test_another_refund_under_the_key_is_a_conflict(
    adapter: Adapter, client: httpx.Client, url: str, changed: dict[str, Any]
) -> None:
    book(client, KEY)
    assert adapter.look_up(inquiry(url, **changed)).finding is Finding.CONFLICT


def test_a_key_is_sent_as_it_is(adapter: Adapter, client: httpx.Client, url: str) -> None:
    key = "a&key=b#c%20+/?"
    book(client, key)
    assert adapter.look_up(inquiry(url, key=key)).finding is Finding.CONFIRMED_DONE


# ---- receipts ----


def test_a_receipt_counts_when_the_ledger_has_the_same(adapter: Adapter, client: httpx.Client, url: str) -> None:
    receipt = book(client, KEY).json()
    found = adapter.validate(receipt, inquiry(url))
    assert found.finding is Finding.CONFIRMED_DONE


@pytest.mark.parametrize(
    "changed", [{"refund_id": "rf_1"}, {"amount": "25.5"}, {"booked_at": None}, {"order_id": 1042}, {"reason": ""}]
)
def test_a_receipt_that_differs_is_a_conflict(
    adapter: Adapter, client: httpx.Client, url: str, changed: dict[str, Any]
) -> None:
    receipt = {**book(client, KEY).json(), **changed}
    found = adapter.validate(receipt, inquiry(url))
    assert (found.finding, found.evidence) == (Finding.CONFLICT, {"different": list(changed)})


def test_a_receipt_of_another_operation_or_of_none_is_a_conflict(
    adapter: Adapter, client: httpx.Client, url: str
) -> None:
    other = book(client, "k-other").json()
    assert adapter.validate(other, inquiry(url)).finding is Finding.CONFLICT
    book(client, KEY)
    assert adapter.validate(other, inquiry(url)).finding is Finding.CONFLICT
    assert adapter.validate({}, inquiry(url)).finding is Finding.CONFLICT


def test_a_receipt_cannot_be_judged_without_the_ledger(adapter: Adapter) -> None:
    with refusing_port() as url:
        assert adapter.validate({}, inquiry(url)).finding is Finding.UNAVAILABLE


# ---- a ledger that does not answer, or badly ----


@contextmanager
def refusing_port() -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def answering(send: Callable[[socket.socket, threading.Event], object]) -> Iterator[str]:
    """A server that takes one connection and does with it what `send` does, until the test is over."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                try:
                    send(connection, over)
                except OSError:
                    return  # the client has gone, as it should

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        thread.join()


def reply(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body


def test_silence_is_unavailable_within_the_deadline(adapter: Adapter) -> None:
    with answering(lambda connection, over: over.wait(30)) as url:
        began = time.monotonic()
        found = adapter.look_up(inquiry(url, seconds=0.2))
        assert time.monotonic() - began < 10
    assert (found.finding, found.evidence) == (Finding.UNAVAILABLE, {"error": "ReadTimeout"})


def test_a_body_that_drips_past_the_deadline_is_unavailable(adapter: Adapter) -> None:
    def drip(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 404 X\r\nContent-Length: 10000\r\n\r\n")
        while not over.wait(0.02):
            connection.sendall(b" ")

    with answering(drip) as url:
        began = time.monotonic()
        found = adapter.look_up(inquiry(url, seconds=0.3))
        assert time.monotonic() - began < 10
    assert (found.finding, found.evidence) == (Finding.UNAVAILABLE, {"error": "TimeoutError"})


def test_no_time_left_is_unavailable(adapter: Adapter, url: str) -> None:
    for seconds in (0, -5):
        assert adapter.look_up(inquiry(url, seconds=seconds)).finding is Finding.UNAVAILABLE


RECORD = {"refund_id": "rf_1", "idempotency_key": KEY, **BODY, "booked_at": "now"}


@pytest.mark.parametrize(
    "status, body",
    [
        (200, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"\xff\xfe"),
        (200, b"[" * 60_000),
        (200, b" " * 70_000 + b"{}"),
        (200, b'{"found": false, "barred": true}'),
        (200, b'{"found": true}'),
        (200, json.dumps({"found": True, "refund": {**RECORD, "refund_id": None}}).encode()),
        (200, json.dumps({"found": 1, "refund": RECORD}).encode()),
        (404, b'{"error": "There is no such address here."}'),
        (404, b'{"found": false}'),
        (404, b'{"found": false, "barred": "yes"}'),
        (404, json.dumps({"found": True, "refund": RECORD}).encode()),
        (302, b'{"found": false, "barred": true}'),
        (500, b'{"found": false, "barred": true}'),
        (503, json.dumps({"found": True, "refund": RECORD}).encode()),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_answer_in_another_form_is_unavailable_and_never_an_absence(
    adapter: Adapter, status: int, body: bytes
) -> None:
    with answering(lambda connection, over: connection.sendall(reply(status, body))) as url:
        assert adapter.look_up(inquiry(url)).finding is Finding.UNAVAILABLE


def test_a_refund_of_another_key_is_no_refund_of_ours(adapter: Adapter) -> None:
    body = json.dumps({"found": True, "refund": {**RECORD, "idempotency_key": "other"}}).encode()
    with answering(lambda connection, over: connection.sendall(reply(200, body))) as url:
        assert adapter.look_up(inquiry(url)).finding is Finding.CONFLICT
