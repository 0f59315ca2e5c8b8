"""The site in threads: what reaches it of a request, and what does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

import pytest

from cayu_project.threads import MAX_BODY, InThreads

pytestmark = pytest.mark.unit

Seen = dict[str, Any]


def site(seen: Seen) -> Callable[..., Iterable[bytes]]:
    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        seen.update(environ, thread=threading.current_thread().name)
        try:
            seen["body"] = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        except OSError as error:
            seen["broke"] = str(error)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"whole"]

    return answer


def ask(headers: list[tuple[bytes, bytes]], messages: list[MutableMapping[str, Any]], query: bytes = b"") -> Any:
    """What the site saw, the status and the body of the answer."""
    seen: Seen = {}
    sent: list[MutableMapping[str, Any]] = []
    waiting = iter(messages)
    scope: MutableMapping[str, Any] = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/x"}
    scope.update(query_string=query, headers=headers)

    async def receive() -> MutableMapping[str, Any]:
        return next(waiting)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(InThreads(site(seen))(scope, receive, send))
    return seen, sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])


def part(body: bytes, *, more: bool = False) -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_request_is_answered_in_a_thread_of_its_own() -> None:
    seen, status, body = ask([(b"content-length", b"6"), (b"x-kind", b"a")], [part(b"abc", more=True), part(b"def")])
    assert (status, body, seen["body"], seen["HTTP_X_KIND"]) == (200, b"whole", b"abcdef", "a")
    assert seen["thread"].startswith("WSGI")


def test_a_header_with_an_underscore_passes_for_no_other() -> None:
    seen, _, _ = ask([(b"content-length", b"0"), (b"x_forwarded_proto", b"https")], [part(b"")])
    assert "HTTP_X_FORWARDED_PROTO" not in seen


def test_a_query_that_is_no_ascii_reaches_the_site_quoted() -> None:
    seen, status, _ = ask([(b"content-length", b"0")], [part(b"")], "q=ü&r=%20".encode())
    assert (status, seen["QUERY_STRING"]) == (200, "q=%C3%BC&r=%20")


def test_who_leaves_in_the_middle_of_a_body_has_sent_none() -> None:
    seen, _, _ = ask([(b"content-length", b"6")], [part(b"abc", more=True), {"type": "http.disconnect"}])
    assert "body" not in seen
    assert "client left" in seen["broke"]


def test_a_body_without_its_length_is_refused_and_says_why() -> None:
    seen, status, body = ask([(b"transfer-encoding", b"chunked")], [part(b"abc")])
    assert (seen, status) == ({}, 411)
    assert b"Content-Length" in body


def test_a_body_that_comes_slowly_takes_no_thread() -> None:
    seen: Seen = {}
    came: list[bool] = []

    async def slowly() -> MutableMapping[str, Any]:
        came.append(bool(seen))
        return part(b"a", more=len(came) < 3)

    async def send(message: MutableMapping[str, Any]) -> None:
        pass

    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/x", "query_string": b""}
    asyncio.run(InThreads(site(seen))({**scope, "headers": [(b"content-length", b"3")]}, slowly, send))
    assert (came, seen["body"]) == ([False, False, False], b"aaa")


@pytest.mark.parametrize("length", [str(MAX_BODY + 1).encode(), b"9" * 30])
def test_a_body_that_is_announced_as_too_large_is_not_received(length: bytes) -> None:
    seen, status, _ = ask([(b"content-length", length)], [])
    assert (status, "body" in seen) == (200, False)
    assert "too large" in seen["broke"]


def test_a_body_that_grows_too_large_is_not_received_to_its_end() -> None:
    headers = [(b"content-length", b"3"), (b"transfer-encoding", b"chunked")]
    seen, _, _ = ask(headers, [part(b"a" * MAX_BODY, more=True), part(b"a", more=True)])
    assert "too large" in seen["broke"]


def test_a_request_without_a_body_waits_for_none() -> None:
    seen, status, _ = ask([], [])
    assert (status, seen["body"]) == (200, b"")
