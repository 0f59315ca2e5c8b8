"""A model made of a rule: a plain function from what was said to what is done next. It needs no key and no network."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ..contracts import Outcome, Reply, Rule, Turn


@lru_cache(maxsize=64)
def rule_model(rule: Rule) -> FunctionModel:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return as_response(rule(turn_of(messages)), len(messages))

    return FunctionModel(answer, model_name=f"rule:{getattr(rule, '__name__', 'rule')}")


def turn_of(messages: list[ModelMessage]) -> Turn:
    """The latest message of the person, and how every call made since it ended."""
    message = ""
    outcomes: list[Outcome] = []
    for entry in messages:
        if not isinstance(entry, ModelRequest):
            continue
        for part in entry.parts:
            if isinstance(part, UserPromptPart):
                message, outcomes = part.content if isinstance(part.content, str) else str(part.content), []
            elif isinstance(part, ToolReturnPart):
                outcomes.append(_outcome(part))
    return Turn(message, tuple(outcomes))


def _outcome(part: ToolReturnPart) -> Outcome:
    content: Any = part.content
    if isinstance(content, str):
        content = json.loads(content)
    said = str(content.get("content") or content.get("reason") or "")
    return Outcome(part.tool_name, part.tool_call_id, str(content.get("status", "")), said, content)


def as_response(reply: Reply, position: int) -> ModelResponse:
    """A reply in the model library's words. Calls without an id get one that is fixed by their place."""
    parts: list[Any] = [TextPart(reply.text)] if reply.text else []
    for index, call in enumerate(reply.calls):
        parts.append(
            ToolCallPart(call.tool, dict(call.arguments), tool_call_id=call.call_id or f"call_{position}_{index}")
        )
    return ModelResponse(parts=parts or [TextPart("")])
