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
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

from ..contracts import EffectNotPerformed, Tool, ToolContext, ToolResult
from .canonical import bounded, storable_key

MAX_EVIDENCE = 2048
_TOKEN = re.compile(
    r"(?i)\b(bearer|basic|key|token|secret|password|authorization)\b(\s*[=:]\s*|\s+)\S+|[A-Za-z0-9_-]{32,}"
)


@dataclass(frozen=True, slots=True)
class Done:
    """The tool returned a valid result: a definite statement that it acted."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class NotDone:
    """The tool stated that it did not act."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """It may have acted. `evidence` is bounded and masked, without arguments or result content."""

    classification: str
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        return str(self.evidence.get("message") or self.classification)


Outcome = Done | NotDone | Ambiguous


def perform(tool: Tool, ctx: ToolContext, arguments: dict[str, Any]) -> Outcome:
    """Run one tool once. Never raises for what the tool does; a tool past its deadline is left behind as a timeout."""
    if ctx.seconds_left <= 0:
        return NotDone(ToolResult(content="The deadline was over before the tool could start.", is_error=True))
    box: list[Any] = []
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=lambda: context.run(_run, tool, ctx, arguments, box), name=f"tool-{tool.spec.name}", daemon=True
    )
    thread.start()
    thread.join(ctx.seconds_left)
    if not box:
        return Ambiguous("timeout", {"classification": "timeout", "seconds": round(ctx.seconds_left, 3)})
    return _classify(box[0], arguments, ctx)


def _run(tool: Tool, ctx: ToolContext, arguments: dict[str, Any], box: list[Any]) -> None:
    try:
        answer: Any = tool.run(ctx, copy.deepcopy(arguments))
        if inspect.isawaitable(answer):
            answer = asyncio.run(_within(answer, ctx.seconds_left))
        box.append(answer)
    except BaseException as error:
        box.append(error)
    finally:
        connections.close_all()


async def _within(answer: Any, seconds: float) -> Any:
    return await asyncio.wait_for(answer, seconds)


def _classify(answer: Any, arguments: dict[str, Any], ctx: ToolContext) -> Outcome:
    if isinstance(answer, EffectNotPerformed):
        return NotDone(ToolResult(content=str(answer) or "The tool did not act.", is_error=True))
    if isinstance(answer, TimeoutError):
        return _raised("timeout", answer, arguments, ctx)
    if isinstance(answer, BaseException):
        return _raised("raised", answer, arguments, ctx)
    problem = _problem(answer)
    if problem:
        return Ambiguous("invalid_result", {"classification": "invalid_result", "message": problem})
    return NotDone(answer) if answer.is_error else Done(answer)


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


def _raised(classification: str, error: BaseException, arguments: dict[str, Any], ctx: ToolContext) -> Ambiguous:
    types: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(types) < 5:
        types.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    secrets = [ctx.idempotency_key, *_texts(arguments)]
    evidence = {"classification": classification, "exceptions": types, "message": masked(str(error), secrets)}
    return Ambiguous(classification, evidence)


def masked(message: str, secrets: Iterable[str] = ()) -> str:
    """An exception's message without the given values and without what looks like a credential, at most 2 KiB."""
    text = storable_key(message)[: MAX_EVIDENCE * 4]
    for secret in sorted((s for s in secrets if len(s) >= 4), key=len, reverse=True):
        text = text.replace(secret, "•••")
    return bounded(_TOKEN.sub("•••", text), MAX_EVIDENCE // 4)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _texts(v)]
    if isinstance(value, list):
        return [t for v in value for t in _texts(v)]
    return []
