"""Asking an agent's models for its next step, in their order, until one answers (DESIGN §12).

The model library is imported by the first question, not with this file: it takes most of a second.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.module_loading import import_string

from ..contracts import Agent, ModelError, Rule
from .canonical import storable_key, whole
from .judgement import ProposedCall
from .perform import masked
from .secrets import schema_of

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters

OnText = Callable[[str, int, str], None]
# How long a model may take to notice that its time is over before its thread is left behind.
GRACE_SECONDS = 5.0
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")


class ModelFailed(Exception):
    """No model of the agent gave a usable step. Nothing of it is in the transcript; the step can be asked again.

    `kind` and `message` are the last model's, masked and bounded; `tried` says the same of each. `retryable`: one of
    them may answer later, the first of those not before `retry_after` seconds.
    """

    def __init__(self, tried: list[tuple[str, ModelError]]) -> None:
        secrets = [value for name, value in os.environ.items() if value and name.upper().endswith(SECRET_NAMES)]
        self.tried = [_told(name, error, secrets) for name, error in tried]
        self.kind: str = self.tried[-1]["error"]
        self.message: str = self.tried[-1]["message"]
        later = [error.retry_after or 0.0 for _, error in tried if error.retryable]
        self.retryable = bool(later) and not tried[-1][1].answered
        self.retry_after = min(later, default=0.0)
        super().__init__(self.message)


def _told(name: str, error: ModelError, secrets: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"model": name, "error": error.kind, "message": masked(error.message, secrets)}
    return {**told, "usage": error.usage} if error.usage else told


@dataclass(frozen=True, slots=True)
class Step:
    """One model response: `message` for the history in memory, `body` for the transcript, its calls; `said` is what the
    event tells of it: the model that gave it, its usage, and which models failed before it.
    """

    message: ModelMessage
    body: Any
    calls: tuple[ProposedCall, ...]
    said: dict[str, Any]


def warm_up() -> None:
    """Import the model library now, which takes most of a second, rather than with the first request."""
    import_module("cayu_runtime.providers.adapter")


def ask(agent: Agent, history: list[ModelMessage], on_text: OnText | None = None) -> Step:
    """The agent's next step, outside any transaction: from the first of its models that is available.

    Each has CAYU_MODEL_TIMEOUT. A model that was reached and refuses, or is cut off, has answered: no other is asked.
    Raises ModelFailed for whatever goes wrong.
    """
    failed: list[tuple[str, ModelError]] = []
    for model in agent.models(settings.CAYU_MODEL):
        name = model if isinstance(model, str) else f"rule:{getattr(model, '__name__', 'rule')}"
        try:
            step = _ask_one(agent, model, name, history, on_text)
        except ModelError as error:
            failed.append((name, error))
            if error.answered:
                break
        else:
            if failed:
                step.said["failed_before"] = ModelFailed(failed).tried
            return step
    raise ModelFailed(failed)


def longest(agent: Agent) -> float:
    """Seconds that one `ask` may take."""
    return len(agent.models(settings.CAYU_MODEL)) * (settings.CAYU_MODEL_TIMEOUT + GRACE_SECONDS)


def _ask_one(agent: Agent, model: str | Rule, name: str, history: list[ModelMessage], on_text: OnText | None) -> Step:
    from pydantic_ai.messages import ToolCallPart

    from ..providers import adapter

    seconds = float(settings.CAYU_MODEL_TIMEOUT)
    try:
        made = named_model(model) if isinstance(model, str) else _rule_model(model)
        told = partial(on_text, name) if on_text else None
        request = adapter.request(made, history, _parameters(agent), seconds, told)
        response = _loop_of(os.getpid()).run(request, seconds + GRACE_SECONDS)
        message, body = _stored(response)
    except Exception as error:
        raise adapter.typed(error, seconds) from error
    parts = [part for part in response.parts if isinstance(part, ToolCallPart)]
    calls = tuple(ProposedCall(part.tool_call_id, part.tool_name, part.args) for part in parts)
    usage = adapter.usage_of(response)
    seen = [call.call_id for call in calls]
    if len(set(seen)) != len(seen) or any(not _is_id(call_id) for call_id in seen):
        text = "The answer has calls with missing, repeated, overlong or unreadable ids."
        raise ModelError("invalid_answer", text, answered=True, usage=usage)
    return Step(message, body, calls, {"model": name, "usage": usage})


def _is_id(text: str) -> bool:
    """A NUL or half a character is no part of an id: no database and no later request could carry it."""
    return 0 < len(text) <= 200 and storable_key(text) == text


def _stored(response: ModelResponse) -> tuple[ModelResponse, Any]:
    """A response as the transcript keeps it, whole: thinking and its signatures too. And itself, read back if half a
    character had to be written out: the next request could not carry it.
    """
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    body = ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)[0]
    stored = _sendable(body)
    if stored == body:
        return response, body
    return ModelMessagesTypeAdapter.validate_python([stored])[0], stored  # type: ignore[return-value]


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole(key): _sendable(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_sendable(entry) for entry in value]
    return value


class _Loop:
    """One event loop in a thread of its own, on which this process asks all models: their clients keep connections to
    it.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="models", daemon=True).start()

    def run(self, request: Coroutine[Any, Any, ModelResponse], seconds: float) -> ModelResponse:
        """The answer. TimeoutError if something holds the thread for `seconds`: then it is left behind."""
        future = asyncio.run_coroutine_threadsafe(request, self._loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            if not future.done():
                _loop_of.cache_clear()
                named_model.cache_clear()  # their connections belong to the loop that hangs
            raise


@lru_cache(maxsize=1)
def _loop_of(process: int) -> _Loop:
    """Threads do not survive a fork, so each process makes its own."""
    return _Loop()


def _rule_model(rule: Rule) -> Model:
    from ..providers.rules import rule_model

    return rule_model(rule)


@lru_cache(maxsize=64)
def named_model(name: str) -> Model:
    """The model of a name `prefix:rest`: from `CAYU_PROVIDERS` if the prefix stands there, else from the model
    library.
    """
    from ..providers import adapter

    prefix, _, rest = name.partition(":")
    path = settings.CAYU_PROVIDERS.get(prefix)
    if path:
        return import_string(path)(rest)
    return adapter.build(name)


def _parameters(agent: Agent) -> ModelRequestParameters:
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(name=t.spec.name, description=t.spec.description, parameters_json_schema=dict(schema_of(t)))
        for t in agent.tools
    ]
    parts = [InstructionPart(content=agent.instructions)] if agent.instructions else None
    return ModelRequestParameters(function_tools=tools, instruction_parts=parts)
