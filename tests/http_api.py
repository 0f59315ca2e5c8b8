"""An HTTP API for tests: a server in a thread that answers as the test says, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]] | None
"""Status, what stands in the body (bytes as they are, anything else as JSON), headers; None drops the connection."""


@dataclass
class Api:
    """`answers` by method: one for each request in turn, the last one for all that follow."""

    answers: dict[str, list[Answer | Callable[[Asked], Answer]]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def of(self, method: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == method]

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        ready = self.answers[asked.method]
        found = ready.pop(0) if len(ready) > 1 else ready[0]
        return found(asked) if callable(found) else found


@contextmanager
def serving(**answers: Any) -> Iterator[Api]:
    """An API whose `POST`, `GET` … answer so: one answer, or a list of them."""
    api = Api({method: said if isinstance(said, list) else [said] for method, said in answers.items()})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            raw = self.rfile.read(length)
            body = json.loads(raw) if raw else None
            answer = api.answer(Asked(self.command, self.path, dict(self.headers.items()), body))
            if answer is None:
                self.close_connection = True
                return
            status, said, *more = answer
            content = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            for name, value in (more[0] if more else {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
