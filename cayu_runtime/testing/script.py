"""A model that says what a test wrote down, and keeps what it was told."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ..contracts import Call, Reply, Turn
from ..providers.rules import turn_of

PREFIX = "cayu-script"
PROVIDER = "cayu_runtime.testing.script.provider"

Step = Reply | Call | Sequence[Call]
"""One answer of the model: a Reply, one call, or several calls of one round."""

_numbers = itertools.count(1)
_models: dict[str, FunctionModel] = {}


class ScriptError(AssertionError):
    """The run and the script of its model do not fit together. The message says at which step, and how."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the model was asked with for one step: its instructions, the tools it could call, and how it stands."""

    instructions: str
    tools: tuple[str, ...]
    turn: Turn


class ScriptedModel:
    """Answers with `steps` in their order; `told` has what it was asked with in this process, step by step.

    Its place is found by counting the model's own answers in the transcript, so a script goes on rightly in another
    process, and one script serves many sessions. What the transcript says of earlier steps must be what the script
    says; a difference, or a step too many, is a `problem`, and the harness raises it as ScriptError.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(_reply(step) for step in steps)
        self.told: list[Told] = []
        self.problem = ""
        name = f"{next(_numbers)}"
        self.model = f"{PREFIX}:{name}"
        _models[name] = FunctionModel(self._answer, model_name="scripted")

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.told.append(Told(info.instructions or "", tuple(t.name for t in info.function_tools), turn_of(messages)))
        said = [message for message in messages if isinstance(message, ModelResponse)]
        try:
            self._compare(said)
        except ScriptError as problem:
            self.problem = str(problem)
            raise
        return _response(self.steps[len(said)], len(said))

    def _compare(self, said: list[ModelResponse]) -> None:
        for number, (message, step) in enumerate(zip(said, self.steps, strict=False), start=1):
            parts = [part for part in message.parts if isinstance(part, ToolCallPart)]
            made = [(part.tool_name, part.args_as_dict()) for part in parts]
            wanted = [(call.tool, dict(call.arguments)) for call in step.calls]
            if made != wanted:
                raise ScriptError(
                    f"Step {number} of the script is {_words(wanted)}, the transcript has {_words(made)} there. "
                    "The session was begun with another script."
                )
        if len(said) >= len(self.steps):
            raise ScriptError(
                f"The script has {len(self.steps)} steps, and the agent asks for step {len(said) + 1}. It was told: "
                f"{_outcomes(self.told[-1].turn)}. Add a step, or end the last one without calls."
            )


def provider(name: str) -> FunctionModel:
    """The scripted model of a name that this process made. Named by the harness under its prefix."""
    return _models[name]


def as_data(steps: Sequence[Reply]) -> list[dict[str, Any]]:
    """A script as JSON, for another process."""
    return [
        {"text": step.text, "calls": [[call.tool, dict(call.arguments), call.call_id] for call in step.calls]}
        for step in steps
    ]


def from_data(data: Sequence[Mapping[str, Any]]) -> ScriptedModel:
    return ScriptedModel([Reply(step["text"], tuple(Call(*call) for call in step["calls"])) for step in data])


def _reply(step: Step) -> Reply:
    if isinstance(step, Reply):
        return step
    calls = (step,) if isinstance(step, Call) else tuple(step)
    if not calls or not all(isinstance(call, Call) for call in calls):
        raise TypeError(f"A step is a Reply, a Call or several Calls, not {step!r}.")
    return Reply(calls=calls)


def _response(step: Reply, number: int) -> ModelResponse:
    """Calls without an id get one that is fixed by their place."""
    parts: list[TextPart | ToolCallPart] = [TextPart(step.text)] if step.text or not step.calls else []
    for index, call in enumerate(step.calls):
        call_id = call.call_id or f"call_{number}_{index}"
        parts.append(ToolCallPart(call.tool, dict(call.arguments), tool_call_id=call_id))
    return ModelResponse(parts=parts)


def _words(calls: list[tuple[str, dict[str, Any]]]) -> str:
    return ", ".join(f"{tool}({', '.join(map(str, arguments.items()))})" for tool, arguments in calls) or "no call"


def _outcomes(turn: Turn) -> str:
    return ", ".join(f"{outcome.tool} {outcome.status}" for outcome in turn.outcomes) or f"{turn.message[:80]!r}"
