"""A model made of a rule: a plain function from what was said to what is done next. It needs no key and no network."""

from __future__ import annotations

import json
from collections.abc import Callable
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
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from ..contracts import ModelError, Outcome, Reply, Rule, Turn


class LocalModel(Model[None]):
    """A model that is a function in this process. Its usage counts words: those it is newly told, and those it says."""

    def __init__(self, name: str, answer: Callable[[list[ModelMessage]], Reply]) -> None:
        super().__init__()
        self._name = name
        self._answer = answer

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def system(self) -> str:
        return "local"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        reply = self._answer(messages)
        said = len(reply.text.split()) + sum(1 + len(call.arguments) for call in reply.calls)
        usage = RequestUsage(input_tokens=_new_words(messages), output_tokens=said)
        return ModelResponse(parts=_parts(reply, len(messages)), usage=usage, model_name=self._name)


@lru_cache(maxsize=64)
def rule_model(rule: Rule) -> LocalModel:
    """The model of a rule. The rule is told a Turn and nothing else, and must not block: it is no place for a tool."""
    return LocalModel(f"rule:{getattr(rule, '__name__', 'rule')}", lambda messages: rule(turn_of(messages)))


def turn_of(messages: list[ModelMessage]) -> Turn:
    """The latest message of the person, and how every call made since it ended."""
    message = ""
    since: list[ToolReturnPart] = []
    for entry in reversed(messages):
        if not isinstance(entry, ModelRequest):
            continue
        for part in reversed(entry.parts):
            if isinstance(part, UserPromptPart):
                message = part.content if isinstance(part.content, str) else str(part.content)
                return Turn(message, tuple(_outcome(returned) for returned in reversed(since)))
            if isinstance(part, ToolReturnPart):
                since.append(part)
    return Turn(message, tuple(_outcome(returned) for returned in reversed(since)))


def _outcome(part: ToolReturnPart) -> Outcome:
    content: Any = part.content
    if isinstance(content, str):
        content = json.loads(content)
    said = str(content.get("content") or content.get("reason") or "")
    return Outcome(part.tool_name, part.tool_call_id, str(content.get("status", "")), said, content)


def _new_words(messages: list[ModelMessage]) -> int:
    """Words of the latest entry: what came since this model last spoke."""
    count = 0
    for part in messages[-1].parts if messages else ():
        if isinstance(part, UserPromptPart):
            count += len(str(part.content).split())
        elif isinstance(part, ToolReturnPart):
            content: Any = part.content
            count += len(str(content.get("content", "") if isinstance(content, dict) else content).split())
    return count


def _parts(reply: Reply, position: int) -> list[TextPart | ToolCallPart]:
    """A reply in the model library's words. Calls without an id get one that is fixed by their place."""
    parts: list[TextPart | ToolCallPart] = [TextPart(reply.text)] if reply.text else []
    for index, call in enumerate(reply.calls):
        call_id = call.call_id or f"call_{position}_{index}"
        parts.append(ToolCallPart(call.tool, dict(call.arguments), tool_call_id=call_id))
    if not parts:
        raise ModelError("empty", "The rule gave neither text nor calls.")
    return parts
