"""The one place where a tool runs: between two transactions, in a thread of its own, until its deadline.

What came of it is classified here and nowhere else (DESIGN §4).
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import inspect
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

from ..contracts import EffectNotPerformed, Tool, ToolContext, ToolEffect, ToolResult
from . import points, secrets
from .attachments import Attached, bound
from .canonical import bounded, storable_key
from .secrets import written_forms
from .verification import Check, check_of

MAX_EVIDENCE = 2048
MAX_MASKED = 64 * 1024
NOT_STARTED = EffectNotPerformed("The deadline was over before the tool could start.")
_NAME = r"[\w-]*(?:key|token|secret|passw(?:or)?d|pwd|cookie|credential|authorization)s?"
_CREDENTIAL = re.compile(
    rf"(?i){_NAME}[\"']?\s*[=:]\s*[\"']?(?:(?:bearer|basic)\s+)?[^\s\"',;&}}]+"
    r"|\b(?:bearer|basic|token|secret|password)\s+\S+"
    r"|(?<=://)[^\s/@]+(?=@)"
    r"|[A-Za-z0-9_-]{32,}"
)


@dataclass(frozen=True, slots=True)
class Done:
    """The tool returned a valid result: a definite statement that it acted.

    `result` is small enough for the call's row, without the value of any secret; `attachments` is what was too large
    for it. `check` is what the tool found out about another one's effect, if it verifies one. `verified_later`: a
    verifier has to look before it counts as completed.
    """

    result: ToolResult
    attachments: tuple[Attached, ...] = ()
    check: Check | None = None
    verified_later: bool = False


@dataclass(frozen=True, slots=True)
class NotDone:
    """The tool stated that it did not act, or it was not even `begun`. The rest as in Done."""

    result: ToolResult
    attachments: tuple[Attached, ...] = ()
    check: Check | None = None
    begun: bool = True


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """It may have acted. `evidence` is bounded and masked, without arguments or result content."""

    classification: str
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        return str(self.evidence.get("message") or self.classification)


Outcome = Done | NotDone | Ambiguous


class OutOfTime(TimeoutError):
    """A coroutine was cancelled at its deadline. A TimeoutError of the tool's own is not one of these."""


@dataclass(frozen=True, slots=True)
class Returned:
    """What a tool returned, and the secrets that it was given: each value with its name."""

    value: Any
    secrets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Raised:
    error: BaseException
    secrets: Mapping[str, str]
    begun: bool


def perform(
    tool: Tool,
    ctx: ToolContext,
    arguments: dict[str, Any],
    late: Callable[[Outcome], None] | None = None,
    until: float | None = None,
) -> Outcome:
    """Run one tool once. Never raises for what the tool does; a tool past its deadline is left behind as a timeout.

    `until` is that deadline on this process's monotonic clock, where it was set before `ctx` was made.
    If one that was left behind ends after all, `late` is told in the tool's own thread what came of it.
    """
    end = time.monotonic() + ctx.seconds_left if until is None else until
    points.reached(points.BEFORE_TOOL)
    if time.monotonic() >= end:
        return NotDone(ToolResult(content=str(NOT_STARTED), is_error=True), begun=False)
    box: list[Returned | Raised] = []
    taken = threading.Lock()  # whoever takes it first decides whether the answer came in time

    def work() -> None:
        box.append(_run(tool, ctx, arguments, end))
        if not taken.acquire(blocking=False) and late is not None:
            late(_classify(box[0], tool, ctx, arguments))
        connections.close_all()

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name=f"tool-{tool.spec.name}", daemon=True)
    thread.start()
    thread.join(max(0.0, end - time.monotonic()))
    points.reached(points.AFTER_TOOL)
    if taken.acquire(blocking=False):
        return _out_of_time(ctx)
    return _classify(box[0], tool, ctx, arguments)


def _out_of_time(ctx: ToolContext) -> Ambiguous:
    """It did not end by itself; `seconds` says so, which no tool's own TimeoutError has."""
    return Ambiguous("timeout", {"classification": "timeout", "seconds": round(ctx.seconds_left, 3)})


def _run(tool: Tool, ctx: ToolContext, arguments: dict[str, Any], until: float) -> Returned | Raised:
    """The tool's own answer. Secrets are read here and nowhere else; one that is missing means that nothing began."""
    given: dict[str, str] = {}
    begun = False
    try:
        copied = copy.deepcopy(arguments)
        if tool.takes_secrets:
            copied = secrets.resolved(tool, ctx.tenant, copied, given)
        if time.monotonic() >= until:  # the whole process may have been stopped meanwhile
            return Raised(NOT_STARTED, given, begun)
        begun = True
        answer: Any = tool.run(ctx, copied)
        if inspect.isawaitable(answer):
            answer = asyncio.run(_within(answer, ctx.seconds_left))
        return Returned(answer, given)
    except BaseException as error:
        return Raised(error, given, begun)


def _classify(answer: Returned | Raised, tool: Tool, ctx: ToolContext, arguments: dict[str, Any]) -> Outcome:
    if isinstance(answer, Raised) and not isinstance(answer.error, EffectNotPerformed):
        if isinstance(answer.error, OutOfTime):
            return _out_of_time(ctx)
        classification = "timeout" if isinstance(answer.error, TimeoutError) else "raised"
        return _raised(classification, answer.error, [ctx.idempotency_key, *_texts(arguments), *answer.secrets])
    if isinstance(answer, Raised):
        result = ToolResult(content=_words(answer.error) or "The tool did not act.", is_error=True)
    else:
        problem = _problem(answer.value)
        if problem:
            return Ambiguous("invalid_result", {"classification": "invalid_result", "message": problem})
        result = answer.value
    key = "" if tool.spec.effect is ToolEffect.NONE else ctx.idempotency_key
    kept, attachments = bound(result, secrets.hidden(answer.secrets), key=key)
    check = check_of(tool, arguments, result) if tool.spec.verifies else None
    if not kept.is_error:
        later = tool.verifier is not None and tool.spec.effect is not ToolEffect.NONE
        return Done(kept, attachments, check, verified_later=later)
    return NotDone(kept, attachments, check, begun=isinstance(answer, Returned) or answer.begun)


async def _within(answer: Any, seconds: float) -> Any:
    try:
        async with asyncio.timeout(seconds) as limit:
            return await answer
    except TimeoutError as error:
        if limit.expired():
            raise OutOfTime from error
        raise


def _words(error: BaseException) -> str:
    """What an exception says; nothing if its own `str` fails."""
    try:
        return str(error)
    except Exception:
        return ""


def _problem(answer: Any) -> str:
    """Why an answer is no valid result, in words that hold nothing of its content."""
    if not isinstance(answer, ToolResult):
        return f"The tool returned a {type(answer).__name__}, not a ToolResult."
    if not isinstance(answer.content, str):
        return "ToolResult.content is not a string."
    if answer.structured is not None and not hasattr(answer.structured, "items"):
        return "ToolResult.structured is not an object."
    if not isinstance(answer.is_error, bool):
        return "ToolResult.is_error is not a boolean."
    if not isinstance(answer.artifacts, (list, tuple)):
        return "ToolResult.artifacts is not a list."
    return ""


def _raised(classification: str, error: BaseException, values: Iterable[str]) -> Ambiguous:
    types: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(types) < 5:
        types.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    evidence = {"classification": classification, "exceptions": types, "message": masked(_words(error), values)}
    return Ambiguous(classification, evidence)


def masked(message: str, secrets: Iterable[str] = ()) -> str:
    """An exception's message without the given values and without what looks like a credential, at most 2 KiB.

    A value is found as it is, in quotes, as JSON and in a URL; one of up to three characters as a whole word alone.
    """
    text = storable_key(message)
    forms = sorted({form for secret in secrets if secret for form in written_forms(secret)}, key=len, reverse=True)
    cut = len(text) > MAX_MASKED
    text = text[:MAX_MASKED]
    for form in forms:
        if len(form) >= 4:
            text = text.replace(form, "•••")
        elif form in text:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", "•••", text)
    if cut and forms:
        text = text[: -len(forms[0])]  # the end may be the beginning of a value
    return bounded(_CREDENTIAL.sub("•••", text), MAX_EVIDENCE // 4)


def _texts(value: Any) -> list[str]:
    """Every value in arguments as text; true, false and null are no secrets."""
    if isinstance(value, dict):
        return [t for v in value.values() for t in _texts(v)]
    if isinstance(value, list):
        return [t for v in value for t in _texts(v)]
    return [] if value is None or isinstance(value, bool) else [str(value)]
