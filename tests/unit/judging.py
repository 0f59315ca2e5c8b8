"""What the tests of judgement share: one tool by hints and one by hand, and a call of either, judged."""

from __future__ import annotations

from typing import Any

from cayu_runtime import (
    Agent,
    PolicyIdentity,
    PolicyRequest,
    Tool,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolResult,
    ToolSpec,
    tool,
)
from cayu_runtime.core.judgement import JudgedCall, ProposedCall, judge
from cayu_runtime.models import Session

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "active": {"type": "boolean", "default": False}},
    "required": ["id"],
    "additionalProperties": False,
}


@tool(effect=ToolEffect.EXTERNAL)
def by_hints(id: int, active: bool = False) -> str:
    return f"{id} {active}"


class ByHand(Tool):
    def __init__(self, effect: ToolEffect = ToolEffect.EXTERNAL, schema: Any = None, target: str = "") -> None:
        super().__init__(ToolSpec("by_hand", "", SCHEMA if schema is None else schema, effect, target=target))

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        raise AssertionError("nothing runs while it is judged")


def judged(which: Tool, arguments: Any, policy: Any = None) -> JudgedCall:
    session = Session(session_id="s-1", requester="user:alice")
    return judge(
        Agent("a", "m", tools=(which,), policy=policy), session, ProposedCall("c1", which.spec.name, arguments)
    )


class Policy(ToolPolicy):
    def __init__(self, answer: Any, identity: Any = PolicyIdentity("mine", "3", {})) -> None:  # noqa: B008
        self.answer = answer
        self._identity = identity

    @property
    def identity(self) -> PolicyIdentity:
        if isinstance(self._identity, Exception):
            raise self._identity
        identity: PolicyIdentity = self._identity
        return identity

    def authorize(self, request: PolicyRequest) -> Any:
        return self.answer(request) if callable(self.answer) else self.answer
