"""The site in threads that stay: under ASGI a request is one call in one of them, with a database connection at hand.

Django's own ASGI handler gives each request a thread of its own and changes threads at each middleware, which costs
more than what a short page does. Whatever must stay asynchronous is routed past this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

from a2wsgi import WSGIMiddleware

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

THREADS = 16
MAX_BODY = 4 * 1024 * 1024
"""More than any address takes. What is announced as longer is not read."""
LENGTH_REQUIRED = b"Send the body with its Content-Length; a body in chunks is not read here."
BODY_FOLLOWS = {b"content-length", b"transfer-encoding"}
QUERY_SAFE = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


class InThreads:
    """An ASGI application that answers with a WSGI one; at most THREADS requests at once, the others wait.

    A body is received whole before a thread is taken, so a client that sends slowly keeps nobody else waiting. A header
    with an underscore in its name is dropped, since WSGI can't tell it from the one with a hyphen. A client that leaves
    in the middle of its body has sent nothing, and a body over MAX_BODY is not read: reading it raises OSError.
    """

    def __init__(self, application: Any) -> None:
        self.inner = WSGIMiddleware(application, workers=THREADS)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)  # type: ignore[arg-type]
            return
        headers = [(name, value) for name, value in scope["headers"] if b"_" not in name]
        names = {name for name, _ in headers}
        if b"transfer-encoding" in names and b"content-length" not in names:
            await _refuse(send)
            return
        query = quote(scope["query_string"], safe=QUERY_SAFE).encode()
        body = await _whole(receive, _length(headers)) if names & BODY_FOLLOWS else b""
        await self.inner({**scope, "headers": headers, "query_string": query}, _given(body), send)  # type: ignore[arg-type]


def _length(headers: list[tuple[bytes, bytes]]) -> int:
    """What the server has let through is a number."""
    return max((int(value) for name, value in headers if name == b"content-length"), default=0)


async def _whole(receive: Receive, length: int) -> bytes | OSError:
    """The body, or why there is none to read."""
    body = bytearray()
    more = length <= MAX_BODY
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return OSError("The client left before it had sent the body.")
        body += message.get("body", b"")
        more = message.get("more_body", False) and len(body) <= MAX_BODY
    return bytes(body) if max(length, len(body)) <= MAX_BODY else OSError("The body is too large to be read.")


def _given(body: bytes | OSError) -> Receive:
    async def read() -> Message:
        if isinstance(body, OSError):
            raise body
        return {"type": "http.request", "body": body, "more_body": False}

    return read


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 411, "headers": headers})
    await send({"type": "http.response.body", "body": LENGTH_REQUIRED})
