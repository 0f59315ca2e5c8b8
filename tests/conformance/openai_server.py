"""An OpenAI-compatible server on this machine that answers what a test tells it, request by request, over real HTTP.

    server.will(calls(("move_money", '{"to": "x"}')), status(500), text("done"))

`server.requests` holds the bodies it was sent. Each answer is given as a stream when the request asks for one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler", dict[str, Any]], None]
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def will(self, *answers: Answer) -> None:
        self.answers.extend(answers)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        answer = self.server.answers.pop(0) if self.server.answers else status(418, "the test planned no more answers")
        answer(self, body)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def send(self, code: int, content: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: str) -> None:
        line = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

    def end_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")


def status(code: int, message: str = "no", **headers: str) -> Answer:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        handler.send(code, json.dumps({"error": {"message": message, "type": "test"}}).encode(), **headers)

    return answer


def text(content: str | None, finish: str | None = "stop", **message: Any) -> Answer:
    return _message({"content": content, **message}, finish)


def calls(*wanted: tuple[str, str], finish: str = "tool_calls") -> Answer:
    """Each call is (tool, its arguments as the model wrote them)."""
    made = [
        {"id": f"call_{n}", "type": "function", "function": {"name": tool, "arguments": arguments}}
        for n, (tool, arguments) in enumerate(wanted)
    ]
    return _message({"content": None, "tool_calls": made}, finish)


def _message(message: dict[str, Any], finish: str | None) -> Answer:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if body.get("stream"):
            _stream(handler, message, finish)
            return
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        handler.send(200, json.dumps({**_head("chat.completion"), "choices": [choice], "usage": USAGE}).encode())

    return answer


def _stream(handler: Handler, message: dict[str, Any], finish: str | None) -> None:
    handler.begin_stream()
    content = message.get("content") or ""
    for piece in (content[:4], content[4:]):
        if piece:
            handler.chunk(_delta({"content": piece}))
    if message.get("refusal"):
        handler.chunk(_delta({"refusal": message["refusal"]}))
    for index, call in enumerate(message.get("tool_calls") or ()):
        handler.chunk(_delta({"tool_calls": [{"index": index, **call}]}))
    if finish is not None:
        handler.chunk(_delta({}, finish))
        handler.chunk(json.dumps({**_head("chat.completion.chunk"), "choices": [], "usage": USAGE}))
        handler.chunk("[DONE]")
    handler.end_stream()


def _delta(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({**_head("chat.completion.chunk"), "choices": [choice]})


def _head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": "test-model-2026"}


def responses(thinking: str, content: str, state: str = "completed") -> Answer:
    """An answer of the newer interface (`openai:…`), with encrypted thinking before its text. Not streamed."""

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": thinking}
        part = {"type": "output_text", "text": content, "annotations": []}
        said = {"id": "msg_1", "type": "message", "role": "assistant", "status": state, "content": [part]}
        answered = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1_700_000_000,
            "model": "test-model-2026",
            "status": state,
            "output": [reasoning, said],
            "parallel_tool_calls": True,
            "tools": [],
            "tool_choice": "auto",
            "incomplete_details": None,
            "error": None,
        }
        if state == "incomplete":
            answered["incomplete_details"] = {"reason": "max_output_tokens"}
        handler.send(200, json.dumps(answered).encode())

    return answer


def nonsense(handler: Handler, body: dict[str, Any]) -> None:
    """A proxy's page instead of an answer."""
    handler.send(200, b"<html>Welcome</html>", "text/html")


def silence(handler: Handler, body: dict[str, Any]) -> None:
    """No answer before the test ends."""
    handler.server.released.wait(30)
    handler.close_connection = True


def hang_up(handler: Handler, body: dict[str, Any]) -> None:
    """The connection ends in the middle of the answer."""
    if body.get("stream"):
        handler.begin_stream()
        handler.chunk(_delta({"content": "Half of a"}))
    else:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"id": "chatcmpl-1", "choices": [{"message": {"content": "Half of a')
    handler.wfile.flush()
    handler.close_connection = True


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
