"""How a composition asks its parts: each on its own copy of the request, an async one not for ever; a failure denies.

No part is asked inside an event loop, since one that isn't async may read the database, which Django refuses there.
Each async part gets a loop of its own, which has ended when the next part is asked: beside an async part, the others
answer as they would alone.

What is answered is rebuilt, never passed on: only what a PolicyResult declares comes out, each of its type.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

from ..contracts import Agreement, Guard, PolicyDecision, PolicyRequest, PolicyResult, Reviewed, ToolPolicy

DEFAULT_SECONDS = 10.0
"""How long an async part may take, if its composition does not say otherwise."""

MOST_SECONDS = 30.0
"""After this long, from when the outermost composition was asked, no async part of it is waited for."""

thread_ends: list[Callable[[], None]] = []
"""What a thread in which a composition was asked calls at its end; the runtime closes its database connections."""

_ends: ContextVar[float] = ContextVar("ends")  # on the monotonic clock: the nearest bound of those that enclose

KINDS = {
    "reason": str,
    "four_eyes": bool | None,
    "reviewed": Reviewed | None,
    "editable": bool,
    "agreement": Agreement | None,
    "mandatory": bool,
}

Answer = TypeVar("Answer", PolicyResult, PolicyResult | None)


def outside_loop(decide: Callable[[], PolicyResult]) -> PolicyResult | Awaitable[PolicyResult]:
    """What `decide` answers, at once; or, if an event loop runs in this thread, from another thread, to be awaited."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _decided(decide)
    return asyncio.to_thread(_aside, decide)


def _aside(decide: Callable[[], PolicyResult]) -> PolicyResult:
    try:
        return _decided(decide)
    finally:
        for end in thread_ends:
            end()


def _decided(decide: Callable[[], PolicyResult]) -> PolicyResult:
    with _bounded(MOST_SECONDS):
        return decide()


def ask(policy: ToolPolicy, request: PolicyRequest, seconds: float) -> PolicyResult:
    """A policy's answer; a denial when it raises, answers nonsense or, being async, takes longer than `seconds`."""
    return _ask(policy, policy.authorize, request, seconds, _sound)


def check(guard: Guard, request: PolicyRequest, seconds: float) -> PolicyResult | None:
    """A guard's objection, or None. A denial when it raises, says anything else or takes longer than `seconds`."""
    return _ask(guard, guard.check, request, seconds, _narrowing)


def _ask(
    part: Any,
    method: Callable[[PolicyRequest], Any],
    request: PolicyRequest,
    seconds: float,
    read: Callable[[Any, Any], Answer],
) -> Answer | PolicyResult:
    try:
        with _bounded(seconds) as ends:
            said = method(replace(request, arguments=copy.deepcopy(request.arguments)))
            if inspect.isawaitable(said):
                said = asyncio.run(_settled(said, ends))
        return read(part, said)
    except Exception as error:
        return failed(part, error)


@contextmanager
def _bounded(seconds: float) -> Iterator[float]:
    """Until when what is asked now may be waited for: never longer than what encloses it."""
    ends = min(_ends.get(math.inf), time.monotonic() + seconds)
    outer = _ends.set(ends)
    try:
        yield ends
    finally:
        _ends.reset(outer)


async def _settled(said: Awaitable[Any], ends: float) -> Any:
    return await asyncio.wait_for(said, ends - time.monotonic())


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
        return PolicyResult(
            said.decision,
            said.reason,
            seconds,
            said.four_eyes,
            said.reviewed,
            said.editable,
            said.agreement,
            said.mandatory,
        )
    return deny(f"{type(policy).__name__} set no usable time limit; that denies.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
