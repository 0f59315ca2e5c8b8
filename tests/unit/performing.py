"""What the tests of performing share: a tool that does what the test says, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from cayu_runtime import Tool, ToolContext, ToolSpec
from cayu_runtime.core.perform import Ambiguous, Outcome, perform

KEY = "idempotency-key-of-the-operation"
CTX = ToolContext("s-1", idempotency_key=KEY, seconds_left=10)


class Does(Tool):
    spec = ToolSpec("does")

    def __init__(self, what: Callable[[ToolContext, dict[str, Any]], Any]) -> None:
        self.what = what

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        return self.what(ctx, args)


class DoesLater(Does):
    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return self.what(ctx, args)


def outcome_of(what: Any, arguments: Any = None, *, kind: type[Does] = Does, seconds: float = 10) -> Outcome:
    answer = what if callable(what) else lambda ctx, args: what
    ctx = ToolContext("s-1", idempotency_key=KEY, seconds_left=seconds)
    return perform(kind(answer), ctx, {} if arguments is None else arguments)


def raising(error: BaseException) -> Callable[[ToolContext, dict[str, Any]], Any]:
    def fail(ctx: ToolContext, args: dict[str, Any]) -> Any:
        raise error

    return fail


def evidence_of(what: Any, arguments: Any = None, *, kind: type[Does] = Does) -> dict[str, Any]:
    outcome = outcome_of(what, arguments, kind=kind)
    assert isinstance(outcome, Ambiguous)
    return outcome.evidence
