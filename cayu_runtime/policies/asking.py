"""How a composition asks its parts: each on its own copy of the request, an async one not for ever; a failure denies.

What is answered is rebuilt, never passed on: only what a PolicyResult declares comes out, each of its type.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..contracts import Guard, PolicyDecision, PolicyRequest, PolicyResult, Reviewed, ToolPolicy

DEFAULT_SECONDS = 10.0
"""How long an async part may take, if its composition does not say otherwise."""

KINDS = {"reason": str, "four_eyes": bool | None, "reviewed": Reviewed | None, "editable": bool}

Answer = TypeVar("Answer", PolicyResult, PolicyResult | None)


def ask(policy: ToolPolicy, request: PolicyRequest, seconds: float) -> PolicyResult | Awaitable[PolicyResult]:
    """A policy's answer; a denial when it raises, answers nonsense or, being async, takes longer than `seconds`."""
    return _ask(policy, policy.authorize, request, seconds, _sound)


def check(guard: Guard, request: PolicyRequest, seconds: float) -> PolicyResult | Awaitable[PolicyResult | None] | None:
    """A guard's objection, or None. A denial when it raises, says anything else or takes longer than `seconds`."""
    return _ask(guard, guard.check, request, seconds, _narrowing)


def _ask(
    part: Any,
    method: Callable[[PolicyRequest], Any],
    request: PolicyRequest,
    seconds: float,
    read: Callable[[Any, Any], Answer],
) -> Answer | Awaitable[Answer]:
    try:
        said = method(replace(request, arguments=copy.deepcopy(request.arguments)))
        if inspect.isawaitable(said):
            return _ask_later(part, said, seconds, read)
        return read(part, said)
    except Exception as error:
        return failed(part, error)


async def _ask_later(part: Any, said: Awaitable[Any], seconds: float, read: Callable[[Any, Any], Answer]) -> Answer:
    try:
        return read(part, await asyncio.wait_for(said, seconds))
    except Exception as error:
        return failed(part, error)


def failed(part: Any, error: Exception) -> PolicyResult:
    return deny(f"{type(part).__name__} failed ({type(error).__name__}); that denies.")


def deny(reason: str) -> PolicyResult:
    return PolicyResult(PolicyDecision.DENY, reason)


def _narrowing(guard: Any, said: Any) -> PolicyResult | None:
    if said is None:
        return None
    if isinstance(said, PolicyResult) and said.decision is PolicyDecision.DENY and isinstance(said.reason, str):
        return deny(said.reason)
    return deny(f"The guard {type(guard).__name__} answered neither None nor a denial; that denies.")


def _sound(policy: Any, said: Any) -> PolicyResult:
    if not isinstance(said, PolicyResult) or not isinstance(said.decision, PolicyDecision):
        return deny(f"{type(policy).__name__} gave no valid answer; that denies.")
    for name, kind in KINDS.items():
        if not isinstance(getattr(said, name), kind):
            return deny(f"{type(policy).__name__} gave a {name} of a wrong type; that denies.")
    seconds = said.expires_in
    if seconds is None or (_is_number(seconds) and math.isfinite(seconds) and seconds > 0):
        return PolicyResult(said.decision, said.reason, seconds, said.four_eyes, said.reviewed, said.editable)
    return deny(f"{type(policy).__name__} set no usable time limit; that denies.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
