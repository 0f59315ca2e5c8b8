"""The API as agent clients meet it: reads and starts of sessions, by several at once, at a real web process."""

from __future__ import annotations

import http.client
import json
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from statistics import quantiles
from typing import Any

from django.core.management import call_command

from .agents import REFERENCE
from .lifecycle import Engine, people, run_lifecycle

CLIENTS = 4
WARM_UP = 10


def api(engine: Engine, port: int, requests: int) -> Callable[[], dict[str, Any]]:
    """Milliseconds of a request, p50 and p95 over all of them, while CLIENTS clients send so many each without a pause.

    The reads are of one session with a lifecycle behind it, in turn: the session, its events, its messages, the list.
    """
    who = people(engine)
    session = run_lifecycle(who)
    made = StringIO()
    call_command(
        "createtoken", "bench", tenant=who.tenant.slug, on_behalf_of=who.requester.name, stdout=made, stderr=StringIO()
    )  # fmt: skip
    headers = {"Authorization": f"Bearer {made.getvalue().strip()}", "Content-Type": "application/json"}
    own = f"/api/v1/sessions/{session.session_id}/"
    reads = (own, f"{own}events/", f"{own}messages/", "/api/v1/sessions/")

    def read(client: http.client.HTTPConnection, number: int) -> None:
        _ask(client, "GET", reads[number % len(reads)], 200, headers)

    def begin(client: http.client.HTTPConnection, number: int) -> None:
        body = json.dumps({"agent": REFERENCE.name, "text": f"change {number}"})
        _ask(client, "POST", "/api/v1/sessions/", 202, {**headers, "Idempotency-Key": uuid.uuid4().hex}, body)

    def run() -> dict[str, Any]:
        return {"read": _at_once(port, read, requests), "start": _at_once(port, begin, requests)}

    return run


def _at_once(port: int, ask: Callable[[http.client.HTTPConnection, int], None], requests: int) -> dict[str, float]:
    def client(_: int) -> list[float]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        lasted = []
        for number in range(WARM_UP + requests):
            began = time.perf_counter()
            ask(connection, number)
            lasted.append((time.perf_counter() - began) * 1000)
        connection.close()
        return lasted[WARM_UP:]

    with ThreadPoolExecutor(CLIENTS) as clients:
        parts = quantiles([ms for each in clients.map(client, range(CLIENTS)) for ms in each], n=20, method="inclusive")
    return {"p50": parts[9], "p95": parts[18]}


def _ask(
    client: http.client.HTTPConnection, method: str, path: str, status: int, headers: dict[str, str], body: str = ""
) -> None:
    client.request(method, path, body or None, headers)
    answer = client.getresponse()
    text = answer.read()
    assert answer.status == status, f"{method} {path} answered {answer.status}: {text[:300]!r}"
