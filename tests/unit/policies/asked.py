"""What the tests of policies share: a request, its answer, and parts that misbehave."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from cayu_runtime import (
    Guard,
    PolicyDecision,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    ToolEffect,
    ToolPolicy,
)

ALLOW, DENY, ASK = PolicyDecision.ALLOW, PolicyDecision.DENY, PolicyDecision.REQUIRE_APPROVAL


def request(tool: str = "refund", arguments: Any = None, **fields: Any) -> PolicyRequest:
    known: dict[str, Any] = {
        "tenant": "t1",
        "session_id": "s-1",
        "agent": "clerk",
        "tool_version": "1",
        "effect": ToolEffect.EXTERNAL,
        "requester": "user:alice",
    }
    return PolicyRequest(tool=tool, arguments={} if arguments is None else arguments, **{**known, **fields})


def answer_of(policy: ToolPolicy, asked: PolicyRequest | None = None) -> PolicyResult:
    answer = policy.authorize(asked or request())
    result = asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer
    assert isinstance(result, PolicyResult)
    return result


async def _awaited(answer: Any) -> Any:
    return await answer


def objection(guard: Any, asked: PolicyRequest) -> str | None:
    """A guard's reason to deny; None when it has none."""
    said = guard.check(asked)
    assert said is None or said.decision is DENY
    return None if said is None else said.reason


class Part(Guard, ToolPolicy):
    """A guard and a policy that says what the test gives: a value, or what a function of the request returns."""

    def __init__(self, says: Any, identity: Any = None) -> None:
        self.says = says
        self.seen: list[PolicyRequest] = []
        self._identity = identity or PolicyIdentity("part", "1", {})

    @property
    def identity(self) -> PolicyIdentity:
        identity: PolicyIdentity = self._identity
        return identity

    def check(self, request: PolicyRequest) -> Any:
        self.seen.append(request)
        return self.says(request) if callable(self.says) else self.says

    authorize = check


def later(says: Any) -> Callable[[PolicyRequest], Any]:
    """The same, said by a coroutine after a turn of the loop."""

    async def say(request: PolicyRequest) -> Any:
        await asyncio.sleep(0)
        return says(request) if callable(says) else says

    return say


def never(request: PolicyRequest) -> Any:
    """A coroutine that does not end by itself."""

    async def wait() -> None:
        await asyncio.Event().wait()

    return wait()


def raises(request: PolicyRequest) -> Any:
    raise ValueError("a secret")
