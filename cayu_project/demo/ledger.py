"""The demo ledger: where the demo's money really moves.

A process of its own with its own SQLite file, reached over HTTP like any downstream system::

    python -m cayu_project.demo.ledger --db ledger.sqlite3 --port 8001

It books a refund at most once for each ``Idempotency-Key``; a key can be looked up, and a key that has no refund can be
barred, after which it can never be booked. One connection carries one request, one booking is one transaction: a
request that is killed half way leaves nothing half done.

    POST /refunds            book; 201 booked, 200 the recorded one again, 409 other body, 410 barred, 400 bad input
    GET  /refunds?key=K      200 {"found": true, "refund": {…}} or 404 {"found": false, "barred": bool}
    GET  /refunds?order_id=O {"refunds": […]}, newest first, at most 100
    POST /bars               {"idempotency_key": K}; 200 {"barred": true}, or 409 with the refund that stands under it
    GET  /targets?name=T     {"target": T, "observation": N, "drifted": bool}; N is new each time
    POST /changes            {"action_id", "target", "reason"}; 201 applied, 200 the recorded one, 409 other fields
    GET  /changes?action_id=A  200 {"found": true, "target": T, "drifted": bool} as of now, or 404 {"found": false}
    POST /drifts             {"target": T}; lets it drift again
    GET  /                   a page for people          GET /health

The header ``X-Ledger-Fault`` makes one booking misbehave: ``drop_before_commit`` and ``drop_after_commit`` reset the
connection without an answer, ``error_before`` and ``error_after`` answer 500, ``slow:SECONDS`` answers late (after the
commit, at most 120 s).

An independent observer may read these tables of the file:

``refunds``   one row for each refund that was booked: refund_id, idempotency_key (unique), order_id, amount (with two
              decimals), reason, booked_at (UTC, ISO 8601).
``requests``  one row for each POST /refunds that arrived whole, committed before anything else is done with it,
              whatever came of it: id (order of arrival), idempotency_key, order_id, fault (each NULL if absent or
              unreadable), arrived_at. No second row means that no second request arrived.
``changes``   one row for each change that was applied: action_id (unique), target, reason, applied_at.
``steps``     what was done to targets, in order: id, kind (observed, apply_started, apply_finished, verified), target,
              action_id, at.
"""

import argparse
import html
import json
import re
import signal
import socket
import socketserver
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cayu_project.demo.ledger_file import BadRequest, Ledger, Order, Refund, text_field
from cayu_project.demo.ledger_targets import Change, Targets, target_name

MAX_BODY = 16 * 1024
MAX_DISCARDED_BODY = 1024 * 1024
MAX_SLOW_SECONDS = 120.0
PLAIN_FAULTS = ("drop_before_commit", "drop_after_commit", "error_before", "error_after")
STOP_SECONDS = 2.0


@dataclass(frozen=True)
class Fault:
    """One way to misbehave; the empty kind is none."""

    kind: str = ""
    seconds: float = 0.0

    @classmethod
    def parse(cls, header: str | None) -> "Fault":
        if header is None or header in PLAIN_FAULTS:
            return cls(header or "")
        slow = re.fullmatch(r"slow:([0-9]{1,6}(?:\.[0-9]{1,3})?)", header)
        if slow is None:
            raise BadRequest(f"X-Ledger-Fault must be {', '.join(PLAIN_FAULTS)} or slow:SECONDS.")
        return cls("slow", min(float(slow[1]), MAX_SLOW_SECONDS))


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], ledger: Ledger) -> None:
        self.ledger = ledger
        self.targets = Targets(ledger.path)
        self.stopping = threading.Event()
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server for the host's full name, as HTTPServer would."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def stop(self) -> None:
        """Take no more connections; slow answers go out now. Call it from another thread than ``serve_forever``."""
        self.stopping.set()
        self.shutdown()


class Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "DemoLedger"
    sys_version = ""
    timeout = 30
    path = ""  # until a request line that can be read has come

    def do_GET(self) -> None:
        self._answer_or_explain(self._get)

    def do_POST(self) -> None:
        self._answer_or_explain(self._post)

    def _answer_or_explain(self, route: Callable[[str, str], None]) -> None:
        path, _, query = self.path.partition("?")
        try:
            route(path, query)
        except BadRequest as problem:
            self._json(400, {"error": str(problem)})
        except sqlite3.Error as problem:
            self.log_error("database: %s", problem)
            self._json(500, {"error": "The ledger cannot use its database. Look into its log."})
        except ConnectionError as problem:
            self.log_error("client gone: %s", problem)

    def _get(self, path: str, query: str) -> None:
        if path == "/":
            self._send(200, "text/html; charset=utf-8", page(self.server.ledger.newest(), self.server.targets.newest()))
        elif path == "/health":
            self.server.ledger.ping()
            self._json(200, {"status": "ok"})
        elif path == "/refunds":
            self._search(parse_qs(query, keep_blank_values=True))
        elif path == "/targets":
            self._json(200, self.server.targets.observe(target_name(_only(query, "name"))))
        elif path == "/changes":
            self._json(*self.server.targets.verify(_only(query, "action_id")))
        else:
            self._json(404, {"error": "There is no such address here."})

    def _post(self, path: str, query: str) -> None:
        if path == "/refunds":
            self._book()
        elif path == "/bars":
            self._bar()
        elif path == "/changes":
            self._json(*self.server.targets.apply(Change.parse(_fields(self._body()))))
        elif path == "/drifts":
            self.server.targets.drift(target_name(_fields(self._body()).get("target")))
            self._json(200, {"drifted": True})
        else:
            self._json(404, {"error": "There is no such address here."})

    def _search(self, query: dict[str, list[str]]) -> None:
        if set(query) == {"key"}:
            refund, barred = self.server.ledger.look_up(query["key"][0])
            if refund is None:
                self._json(404, {"found": False, "barred": barred})
            else:
                self._json(200, {"found": True, "refund": refund.answer()})
        elif set(query) == {"order_id"}:
            refunds = self.server.ledger.of_order(query["order_id"][0])
            self._json(200, {"refunds": [refund.answer() for refund in refunds]})
        else:
            raise BadRequest("Ask with ?key= or with ?order_id=.")

    def _book(self) -> None:
        key, fault_header = self.headers.get("Idempotency-Key"), self.headers.get("X-Ledger-Fault")
        body = self._body()
        again = self.server.ledger.record_request(key, _order_id_of(body), fault_header)
        fault = Fault.parse(fault_header)
        key, order = _checked_key(key), Order.parse(_fields(body))
        if fault.kind == "drop_before_commit" and not again:
            self._drop()
        elif fault.kind == "error_before":
            self._json(500, {"error": "The ledger failed before it booked anything, as it was asked to."})
        else:
            self._answer_booking(fault, *self.server.ledger.book(key, order))

    def _answer_booking(self, fault: Fault, status: int, answer: dict[str, Any]) -> None:
        if fault.kind == "drop_after_commit":
            self._drop()
        elif fault.kind == "error_after":
            self._json(500, {"error": "The ledger failed after it had done its work, as it was asked to."})
        else:
            self.server.stopping.wait(fault.seconds)
            self._json(status, answer)

    def _bar(self) -> None:
        fields = _fields(self._body())
        key = _checked_key(fields.get("idempotency_key"))
        refund = self.server.ledger.bar(key)
        if refund is None:
            self._json(200, {"barred": True})
        else:
            error = "A refund stands under this key, so it cannot be barred."
            self._json(409, {"barred": False, "error": error, "refund": refund.answer()})

    def _body(self) -> bytes | None:
        """The whole body; None if it is larger than allowed. What is too large is read and thrown away, within reason,
        so that the client gets its answer instead of a reset."""
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,15}", length):
            raise BadRequest("Send a body with a Content-Length.")
        if int(length) > MAX_BODY:
            self.rfile.read(min(int(length), MAX_DISCARDED_BODY))
            return None
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise BadRequest("The body ended too early.")
        return body

    def _drop(self) -> None:
        """Reset the connection: no answer, no orderly end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()
        self.log_message('"%s" dropped', self._request_name())

    def _json(self, status: int, answer: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(answer))

    def _send(self, status: int, content_type: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def _request_name(self) -> str:
        return f"{self.command} {self.path.partition('?')[0]}"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """One line without the query, which may hold a key."""
        self.log_message('"%s" %s', self._request_name(), code)


def _fields(body: bytes | None) -> dict[str, Any]:
    if body is None:
        raise BadRequest(f"The body is too large: at most {MAX_BODY} bytes.")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("The body must be JSON.") from None
    if not isinstance(fields, dict):
        raise BadRequest("The body must be a JSON object.")
    return fields


def _only(query: str, name: str) -> str:
    """The value of the one parameter that is asked for."""
    asked = parse_qs(query, keep_blank_values=True)
    if set(asked) != {name}:
        raise BadRequest(f"Ask with ?{name}= alone.")
    return asked[name][0]


def _order_id_of(body: bytes | None) -> str | None:
    try:
        return text_field(_fields(body), "order_id", limit=100)
    except BadRequest:
        return None


def _checked_key(key: Any) -> str:
    if not isinstance(key, str) or not re.fullmatch(r"[!-~]{1,200}", key):
        raise BadRequest("An idempotency key is required: 1 to 200 printable ASCII characters without a space.")
    return key


def page(refunds: Sequence[Refund], changes: Sequence[tuple[str, Change]] = ()) -> str:
    booked = _table(("Booked at", "Order", "Amount", "Reason", "Refund"), [_refund_cells(refund) for refund in refunds])
    applied = _table(("Applied at", "Target", "Reason", "Action"), [_change_cells(*change) for change in changes])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Demo ledger</title>
</head>
<body>
<main>
<h1>Demo ledger</h1>
<p>The refunds that were really booked, newest first. Reload the page to see what is new.</p>
{booked if refunds else "<p>No refund has been booked yet.</p>"}
<h2>Changes</h2>
{applied if changes else "<p>No change has been applied yet.</p>"}
</main>
</body>
</html>
"""


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _refund_cells(refund: Refund) -> tuple[str, ...]:
    return _moment(refund.booked_at), refund.order_id, refund.amount, refund.reason, refund.refund_id


def _change_cells(applied_at: str, change: Change) -> tuple[str, ...]:
    return _moment(applied_at), change.target, change.reason, change.action_id


def _moment(text: str) -> str:
    return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S UTC")


def serve(server: Server) -> None:
    """Serve until SIGTERM or SIGINT, then give the requests that run a moment to end."""

    def stop(signum: int, frame: object) -> None:
        threading.Thread(target=server.stop, name="stop").start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    host, port = server.server_address[:2]
    sys.stdout.write(f"ledger listening on http://{host!s}:{port}\n")
    sys.stdout.flush()
    server.serve_forever(poll_interval=0.1)
    server.server_close()
    end = time.monotonic() + STOP_SECONDS
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(max(0.0, end - time.monotonic()))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ledger", description="Books refunds over HTTP, once per key.")
    parser.add_argument("--db", type=Path, required=True, help="the SQLite file; made if it is missing")
    parser.add_argument("--port", type=int, required=True, help="0 takes any free port")
    parser.add_argument("--host", default="127.0.0.1")
    options = parser.parse_args(arguments)
    try:
        ledger = Ledger(options.db)
    except sqlite3.Error as problem:
        sys.stderr.write(f"The ledger cannot use {options.db}: {problem}.\n")
        return 2
    try:
        server = Server((options.host, options.port), ledger)
    except (OSError, OverflowError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        sys.stderr.write(f"The ledger cannot listen on {options.host}:{options.port}: {reason}.\n")
        return 2
    serve(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
