"""The models of the measured agents: what they say depends on how far the transcript is, and costs next to nothing.

Each response names its usage, since the model library else estimates it from the whole transcript at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from . import marks
from .agents import APPLY, CALLS_IN_ROUND, NOTE, READ, RECORD, SEND, VERIFY

Parts = Sequence[TextPart | ToolCallPart]
Script = Callable[[int, str], Parts]


def reference(step: int, message: str) -> Parts:
    change = {"action_id": message, "target": "demo", "reason": "it drifted from what was agreed"}
    if step == 0:
        return [_call(RECORD, step, 0, change)]
    if step == 1:
        return [_call(APPLY, step, 0, change), _call(VERIFY, step, 1, {"action_id": message})]
    return [TextPart(f"{message} was applied and verified.")]


def rounds(step: int, message: str) -> Parts:
    if step < int(message):
        return [_call(READ, step, 0, {"action_id": f"value-{step}"})]
    return [TextPart(f"{step} values were read.")]


def calls(step: int, message: str) -> Parts:
    if step == 0:
        return [_call(NOTE, step, n, {"action_id": f"{message}-{n}"}) for n in range(CALLS_IN_ROUND)]
    return [TextPart("All notes were written.")]


def uncertain(step: int, message: str) -> Parts:
    return [TextPart(f"{message} was sent.")] if step else [_call(SEND, step, 0, {"action_id": message})]


def _call(tool: Any, step: int, index: int, arguments: dict[str, str]) -> ToolCallPart:
    return ToolCallPart(tool.spec.name, arguments, tool_call_id=f"call_{step}_{index}")


SCRIPTS: dict[str, Script] = {"reference": reference, "rounds": rounds, "calls": calls, "uncertain": uncertain}


@lru_cache(maxsize=8)
def model_named(name: str) -> FunctionModel:
    """The provider of the prefix `bench`."""
    script = SCRIPTS[name]

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        marks.say("model")
        # A transcript is the person's message, then a response and its results for each step before this one.
        parts = script(len(messages) // 2, _said(messages[0]))
        return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=100, output_tokens=20))

    return FunctionModel(answer, model_name=f"bench:{name}")


def _said(first: ModelMessage) -> str:
    return next(str(part.content) for part in first.parts if isinstance(part, UserPromptPart))
