"""A tool of an HTTP API, by configuration: one request, sent at most once, under the operation's own key.

    CREATE_REFUND = HttpTool(
        ToolSpec("create_refund", input_schema=…, verb="Refund order", target="order"),
        Endpoint("https://api.example.com/v1/orders/{order}/refunds"),
        done=(When(201),),
        refused=(When(409), When(422)),
        record=Record(("id", "amount")),
        reconciler=HttpReconciler(…),          # reconcilers/http.py
    )

Transport retries and redirects are off, the deadline is the dispatch's, the answer is bounded. What none of the rules
recognises, a timeout and a lost connection leave the outcome unknown; only a connection that was never made, and an
answer that `refused` recognises, say that nothing was done.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any
from urllib.parse import quote

import httpx

from ..contracts import (
    EffectNotPerformed,
    InvalidArguments,
    Reconciler,
    Tool,
    ToolContext,
    ToolEffect,
    ToolResult,
    ToolSpec,
)
from ..contracts.secret import MARK, reference_of

MAX_ANSWER = 64 * 1024
MAX_TOLD = 500
KEY, OPERATION, CREDENTIAL = "idempotency_key", "operation_id", "credential"
NAMES = re.compile(r"{([A-Za-z_]\w*)}")
ORIGIN = re.compile(r"https?://[^/{}?#@\s]+(?=[/?]|$)")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
PRINTABLE = re.compile(r"[\x20-\x7e]*")


class _Anything(Enum):
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class Credential:
    """A header that takes a secret: the tool's arguments hold its reference, a worker reads it just before it sends.

    `format` has one `{}`, where the value goes. See `CAYU_SECRETS` for where values come from.
    """

    secret: str
    header: str = "Authorization"
    format: str = "Bearer {}"
    version: str = ""

    def __post_init__(self) -> None:
        if reference_of(self.reference) is None:
            raise ValueError(f"Credential: {self.secret!r} is no name of a secret: letters, digits, '-' and '_'.")
        if self.format.count("{}") != 1:
            raise ValueError("Credential: format has one {}, where the value goes.")

    @property
    def reference(self) -> dict[str, str]:
        return {"$secret": self.secret, **({"version": self.version} if self.version else {})}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one request goes. `{name}` in `url` and in `headers` is an argument's value, percent-encoded in the URL.

    `{idempotency_key}` and `{operation_id}` are the operation's own. The host is fixed. `body` names what goes into the
    JSON body: a tuple of names, or a mapping from JSON fields to names; None is all arguments that the URL and the
    headers don't take, `()` no body at all. `key_header` carries the key with all but GET and HEAD; "" sends none. A
    header without a value is left out.
    """

    url: str
    method: str = "POST"
    body: tuple[str, ...] | Mapping[str, str] | None = None
    key_header: str = "Idempotency-Key"
    headers: Mapping[str, str] = field(default_factory=dict)
    credential: Credential | None = None

    def __post_init__(self) -> None:
        if not ORIGIN.match(self.url):
            raise ValueError(f"Endpoint {self.url!r}: write scheme and host out, and names in the path or query alone.")
        if self.method not in METHODS:
            raise ValueError(f"Endpoint: {self.method!r} is none of {', '.join(METHODS)}.")
        if isinstance(self.body, str):
            raise ValueError("Endpoint: body is a tuple of names, not one string.")

    @property
    def names(self) -> frozenset[str]:
        """What this request is told to say of the operation; `key_header`, and a body of all that is left, aside."""
        return self._named | frozenset(self.fields(()).values())

    @property
    def reads(self) -> bool:
        return self.method in ("GET", "HEAD")

    @property
    def _named(self) -> frozenset[str]:
        return frozenset(name for text in (self.url, *self.headers.values()) for name in NAMES.findall(text))

    def fields(self, values: Iterable[str]) -> dict[str, str]:
        """The JSON fields of the body, each with the name of its value."""
        if self.body is None:
            taken = self._named | {KEY, OPERATION, CREDENTIAL}
            return {} if self.reads else {name: name for name in values if name not in taken}
        return dict(self.body) if isinstance(self.body, Mapping) else {name: name for name in self.body}

    def address(self, values: Mapping[str, Any]) -> str:
        """NotSent for a value that is no text or number, or that would lead to another path."""

        def written(found: re.Match[str]) -> str:
            value = _text(found[1], values)
            if value in ("", ".", ".."):
                raise NotSent(f"{found[1]}: {value!r} can't stand in the address.")
            return quote(value, safe="")

        return NAMES.sub(written, self.url)

    def header_values(self, values: Mapping[str, Any]) -> dict[str, str]:
        """NotSent for a value that no header can hold."""
        own = {self.key_header: f"{{{KEY}}}"} if self.key_header and not self.reads else {}
        texts = {**self.headers, **own}
        written = {name: NAMES.sub(lambda found: _text(found[1], values), text) for name, text in texts.items()}
        wrong = next((name for name, value in written.items() if not PRINTABLE.fullmatch(value)), None)
        if wrong:
            raise NotSent(f"The header {wrong} can't hold this value.")
        return {name: value for name, value in written.items() if value}


def _text(name: str, values: Mapping[str, Any]) -> str:
    value = values.get(name, "")
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise NotSent(f"{name} is no text and no whole number, so it can't stand in an address or a header.")
    return str(value)


@dataclass(frozen=True, slots=True)
class When:
    """Recognises an answer: its status, and where `field` is given (`error.code`), the JSON value there.

    Without `value` the field only has to be there; null is as good as not there. Types count: 1 is not true.
    """

    status: int
    field: str = ""
    value: Any = _Anything.ANYTHING

    def fits(self, answer: Answer) -> bool:
        if answer.status != self.status:
            return False
        if not self.field:
            return True
        found = at(answer.body, self.field)
        if found is None or self.value is _Anything.ANYTHING:
            return found is not None
        return type(found) is type(self.value) and bool(found == self.value)


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept of a record of the API: the fields `keep` below `path`, all of them texts, numbers or booleans.

    `says` is the result's sentence, with `{field}`.
    """

    keep: tuple[str, ...] = ()
    path: str = ""
    says: str = "Done."

    def of(self, body: Any) -> dict[str, Any] | None:
        """None when one of the fields is missing or is no plain value."""
        whole = at(body, self.path) if self.path else body
        kept = {name: at(whole, name) for name in self.keep}
        return kept if all(isinstance(value, (str, int, float)) for value in kept.values()) else None

    def result(self, kept: Mapping[str, Any]) -> ToolResult:
        content = NAMES.sub(lambda found: str(kept.get(found[1], "")), self.says)
        return ToolResult(content, dict(kept) if kept else None)


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is None where it is no JSON."""

    status: int
    body: Any
    text: str


class AnswerUnknown(Exception):
    """The API gave an answer that says nothing definite."""


def at(value: Any, path: str) -> Any:
    """The value at a dotted path; None if there is none."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


class NotSent(Exception):
    """The request can't be built from these values. Nothing was sent."""


def exchange(endpoint: Endpoint, values: Mapping[str, Any], credential: str, seconds: float) -> Answer:
    """Send one request, and read its answer whole, within `seconds`.

    NotSent when it can't be built. Raises httpx's errors, and TimeoutError or AnswerUnknown when the answer is too slow
    or longer than 64 KiB.
    """
    until = time.monotonic() + seconds
    transport = httpx.HTTPTransport(retries=0, trust_env=False)
    timeout = max(seconds, 0.001)
    with httpx.Client(transport=transport, follow_redirects=False, timeout=timeout, trust_env=False) as client:
        answer = client.send(_built(client, endpoint, values, credential), stream=True)
        try:
            raw = _read(answer, until)
        finally:
            answer.close()
    return Answer(answer.status_code, _parsed(raw), raw.decode("utf-8", "replace"))


def _built(client: httpx.Client, endpoint: Endpoint, values: Mapping[str, Any], credential: str) -> httpx.Request:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", **endpoint.header_values(values)}
    if endpoint.credential is not None:
        if not PRINTABLE.fullmatch(credential):
            raise NotSent(f"The secret {endpoint.credential.secret!r} can't stand in a header.")
        headers[endpoint.credential.header] = endpoint.credential.format.format(credential)
    body = {name: values[source] for name, source in endpoint.fields(values).items() if source in values}
    address = endpoint.address(values)
    try:
        return client.build_request(endpoint.method, address, headers=headers, json=body or None)
    except (ValueError, TypeError, httpx.InvalidURL) as problem:
        raise NotSent(f"The request can't be built ({type(problem).__name__}).") from None


def _read(answer: httpx.Response, until: float) -> bytes:
    raw = b""
    for chunk in answer.iter_bytes():
        raw += chunk
        if len(raw) > MAX_ANSWER:
            raise AnswerUnknown(f"The answer ({answer.status_code}) is longer than {MAX_ANSWER} bytes.")
        if time.monotonic() > until:
            raise TimeoutError("The answer came too slowly.")
    return raw


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


class HttpTool(Tool):
    """One request of an HTTP API. The first part of this module says how it is configured, and what it guarantees.

    `done` and `refused` recognise answers; one that both recognise, or neither, leaves the outcome unknown. `record`
    says what of the answer becomes the result. The tool's schema gets the argument `credential` where the endpoint has
    one: always the configured reference, whatever the model says.
    """

    def __init__(
        self,
        spec: ToolSpec,
        endpoint: Endpoint,
        *,
        done: tuple[When, ...],
        refused: tuple[When, ...] = (),
        record: Record | None = None,
        reconciler: Reconciler | None = None,
    ) -> None:
        if not done:
            raise ValueError(f"Tool {spec.name!r}: say which answers mean that it was done.")
        if spec.effect is ToolEffect.IDEMPOTENT and not (endpoint.key_header or endpoint.names & {KEY, OPERATION}):
            raise ValueError(f"Tool {spec.name!r}: IDEMPOTENT needs the operation's key in the request.")
        properties = dict(spec.input_schema.get("properties", {}))
        taken = sorted({KEY, OPERATION, CREDENTIAL} & set(properties))
        if taken:
            raise ValueError(f"Tool {spec.name!r}: the name {taken[0]!r} is taken. Rename this argument.")
        unknown = sorted(endpoint.names - set(properties) - {KEY, OPERATION})
        if unknown:
            raise ValueError(f"Tool {spec.name!r}: its endpoint names {unknown[0]!r}, which is no argument of it.")
        if endpoint.credential is not None:
            own = {MARK: True, "default": endpoint.credential.reference, "description": "Leave this out."}
            schema = {**spec.input_schema, "properties": {**properties, CREDENTIAL: own}}
            spec = replace(spec, input_schema=schema)
        super().__init__(spec)
        self.endpoint, self.done, self.refused = endpoint, done, refused
        self.record = record or Record()
        self.reconciler = reconciler

    def coerce(self, args: dict[str, Any]) -> dict[str, Any]:
        effective = super().coerce(args)
        credential = self.endpoint.credential
        if credential is not None and effective.get(CREDENTIAL) != credential.reference:
            raise InvalidArguments(f"{CREDENTIAL}: leave this out; the tool has its own.")
        try:
            self.endpoint.address({**effective, KEY: "k", OPERATION: "o"})
            self.endpoint.header_values({**effective, KEY: "k", OPERATION: "o"})
        except NotSent as problem:
            raise InvalidArguments(str(problem)) from None
        return effective

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        arguments = {name: value for name, value in args.items() if name != CREDENTIAL}
        values = {**arguments, KEY: ctx.idempotency_key, OPERATION: ctx.operation_id}
        try:
            answer = exchange(self.endpoint, values, args.get(CREDENTIAL, ""), ctx.seconds_left)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise EffectNotPerformed("The API could not be reached; the request was never sent.") from error
        except NotSent as problem:
            raise EffectNotPerformed(f"{problem} Nothing was sent.") from None
        done, refused = (any(rule.fits(answer) for rule in rules) for rules in (self.done, self.refused))
        if refused and not done:
            raise EffectNotPerformed(f"The API refused ({answer.status}): {answer.text[:MAX_TOLD]}")
        kept = self.record.of(answer.body) if done and not refused else None
        if kept is None:
            raise AnswerUnknown(f"The API answered {answer.status}; whether it acted is unknown.")
        return self.record.result(kept)
