"""Asking an agent's model for its next step, through the model library's direct request interface (DESIGN §12)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.module_loading import import_string

from ..contracts import Agent
from .judgement import ProposedCall
from .perform import masked

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters


class ModelFailed(Exception):
    """The model gave no usable step. Nothing of it is in the transcript; the step can be asked again."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class Step:
    """One model response: `message` for the history in memory, `body` for the transcript, its calls and usage."""

    message: ModelMessage
    body: Any
    calls: tuple[ProposedCall, ...]
    usage: dict[str, Any]


def warm_up() -> None:
    """Import the model library now, which takes most of a second, rather than with the first request."""
    import_module("pydantic_ai.direct")


def ask(agent: Agent, history: list[ModelMessage]) -> Step:
    """One request to the model, outside any transaction. Raises ModelFailed for whatever goes wrong with it."""
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ToolCallPart

    try:
        request = model_request(
            _model(agent),
            history,
            model_settings={"timeout": settings.CAYU_MODEL_TIMEOUT},
            model_request_parameters=_parameters(agent),
        )
        response = _loop_of(os.getpid()).run(asyncio.wait_for(request, settings.CAYU_MODEL_TIMEOUT))
        body = ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)[0]
    except Exception as error:
        raise ModelFailed(type(error).__name__, masked(str(error))) from error
    parts = [part for part in response.parts if isinstance(part, ToolCallPart)]
    calls = tuple(ProposedCall(part.tool_call_id, part.tool_name, part.args) for part in parts)
    seen = [call.call_id for call in calls]
    if len(set(seen)) != len(seen) or "" in seen or any(len(call_id) > 200 for call_id in seen):
        raise ModelFailed("InvalidReply", "The model's reply has calls with missing, repeated or overlong ids.")
    usage = {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
    return Step(response, body, calls, usage)


class _Loop:
    """One event loop in a thread of its own, on which this process asks all models: their clients keep connections to
    it.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="models", daemon=True).start()

    def run(self, request: Coroutine[Any, Any, ModelResponse]) -> ModelResponse:
        return asyncio.run_coroutine_threadsafe(request, self._loop).result()


@lru_cache(maxsize=1)
def _loop_of(process: int) -> _Loop:
    """Threads do not survive a fork, so each process makes its own."""
    return _Loop()


def _model(agent: Agent) -> Model:
    if callable(agent.model):
        return import_string("cayu_runtime.providers.rules.rule_model")(agent.model)
    return named_model(agent.model or settings.CAYU_MODEL)


@lru_cache(maxsize=64)
def named_model(name: str) -> Model:
    """The model of a name `prefix:rest`: from `CAYU_PROVIDERS` if the prefix stands there, else from the model
    library.
    """
    prefix, _, rest = name.partition(":")
    path = settings.CAYU_PROVIDERS.get(prefix)
    if path:
        return import_string(path)(rest)
    from pydantic_ai.models import infer_model

    return infer_model(name)


def _parameters(agent: Agent) -> ModelRequestParameters:
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(name=t.spec.name, description=t.spec.description, parameters_json_schema=dict(t.schema))
        for t in agent.tools
    ]
    parts = [InstructionPart(content=agent.instructions)] if agent.instructions else None
    return ModelRequestParameters(function_tools=tools, instruction_parts=parts)
