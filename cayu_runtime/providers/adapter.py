"""One adapter for every model: build it by name, ask it once through the library's direct request interface, and say in
one kind of error what went wrong (DESIGN §12).

Nothing is retried here, and the SDKs' own retries are off: whoever asks decides. A half answer is no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import httpx2
from pydantic_ai import exceptions as library
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.settings import ModelSettings

from ..contracts import ModelError
from .vendors import missing

OnText = Callable[[int, str], None]
"""Told (characters before it, text) of an answer that is still being given."""


def build(name: str) -> Model:
    """The model of a name that the library knows. ModelError says what to install, set or correct."""
    lack = missing(name)
    if lack is not None:
        raise ModelError(lack.kind, str(lack))
    try:
        return infer_model(name)
    except ImportError as error:
        raise ModelError("not_installed", str(error)) from error
    except library.UserError as error:
        raise ModelError("misconfigured", str(error)) from error


async def request(
    model: Model,
    history: Sequence[ModelMessage],
    parameters: ModelRequestParameters,
    seconds: float,
    on_text: OnText | None = None,
) -> ModelResponse:
    """One complete answer within `seconds`, or ModelError. With `on_text`, text is told while it arrives, if it can."""
    settings = _settings(model, seconds)
    try:
        async with asyncio.timeout(seconds):
            if on_text is not None and _can_stream(model):
                response = await _streamed(model, history, settings, parameters, on_text)
            else:
                response = await model_request(
                    model, history, model_settings=settings, model_request_parameters=parameters
                )
    except Exception as error:
        raise typed(error, seconds) from error
    _refuse_half(response)
    return response


def _settings(model: Model, seconds: float) -> ModelSettings:
    wanted = ModelSettings(timeout=seconds, max_retries=0)
    for name in model.unsupported_settings & {"timeout", "max_retries"}:
        wanted.pop(name)
    return wanted


def _can_stream(model: Model) -> bool:
    if isinstance(model, FunctionModel):
        return model.stream_function is not None
    return type(model).request_stream is not Model.request_stream


async def _streamed(
    model: Model,
    history: Sequence[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters,
    on_text: OnText,
) -> ModelResponse:
    said = 0
    async with model_request_stream(
        model, history, model_settings=settings, model_request_parameters=parameters
    ) as stream:
        async for event in stream:
            text = ""
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                text = event.part.content
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                text = event.delta.content_delta
            if text:
                on_text(said, text)
                said += len(text)
        response = stream.get()
    if response.provider_name and not _ended(stream, response):
        raise ModelError("connection_failed", "The stream ended before the answer did.", retryable=True)
    return response


def _ended(stream: StreamedResponse, response: ModelResponse) -> bool:
    """Whether the provider said that its answer is whole.

    Where a stream of the chat interface just ends, the library says "stop" for it; only the provider's own word counts.
    """
    if any(kind.__name__ == "OpenAIStreamedResponse" for kind in type(stream).__mro__):  # its SDK may not be installed
        return bool({"finish_reason", "refusal"} & (response.provider_details or {}).keys())
    return response.finish_reason is not None


def _refuse_half(response: ModelResponse) -> None:
    """An answer is a text or calls, given to the end. Whatever else a model may say is an error with a name."""
    usage = usage_of(response)
    if response.finish_reason == "length":
        text = "The answer was cut off by the token limit; nothing of it was used. Ask for less, or raise the limit."
        raise ModelError("cut_off", text, answered=True, usage=usage)
    if response.finish_reason == "content_filter":
        text = "The model or its provider's content filter refused to answer."
        raise ModelError("refused", text, answered=True, usage=usage)
    if response.state != "complete":
        text = f"The provider left its answer {response.state}; nothing of it was used."
        raise ModelError("unfinished", text, answered=True, usage=usage)
    if response.finish_reason == "error":
        raise ModelError("invalid_answer", "The provider ended its answer with an error.", retryable=True, usage=usage)
    if not any(_says_something(part) for part in response.parts):
        raise ModelError("empty", "The answer has neither text nor calls.", retryable=True, usage=usage)


def _says_something(part: Any) -> bool:
    if isinstance(part, TextPart):
        return bool(part.content.strip())
    return isinstance(part, ToolCallPart)


def usage_of(response: ModelResponse) -> dict[str, int]:
    """Tokens of one answer; what is zero is left out, but for input and output."""
    usage = response.usage
    named = {"cache_read_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    counted = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return counted | {name: count for name, count in {**usage.details, **named}.items() if count}


# The first that fits decides: (exception, kind, what it means, whether the same request may succeed later).
_KINDS: tuple[tuple[type[Exception], str, str, bool], ...] = (
    (library.ModelRateLimitError, "rate_limited", "The provider limits the rate of requests", True),
    (library.ModelQuotaExceededError, "quota_exceeded", "The account's quota or credit is used up", False),
    (library.ModelUnavailableError, "unavailable", "The provider is unavailable or overloaded", True),
    (library.ModelServerError, "server_error", "The provider failed", True),
    (library.ModelRequestTimeout, "timeout", "The provider did not answer in time", True),
    (library.ModelTimeoutError, "timeout", "The provider did not answer in time", True),
    (library.ModelConnectionError, "connection_failed", "The connection to the provider failed", True),
    (library.ModelAuthenticationError, "not_authorised", "The provider refuses the key", False),
    (library.ModelNotFoundError, "unknown_model", "The provider knows no such model", False),
    (library.ModelContextWindowExceededError, "too_long", "The transcript is too long for this model", False),
    (library.ModelRequestRejectedError, "rejected", "The provider refuses the request as it is", False),
    (library.ContentFilterError, "refused", "The provider's content filter refused to answer", False),
    (library.OutputTokenLimitExceeded, "cut_off", "The answer was cut off by the token limit", False),
    (library.UnexpectedModelBehavior, "invalid_answer", "The provider's answer can't be read", True),
    (library.UserError, "misconfigured", "The model is not set up correctly", False),
    (TimeoutError, "timeout", "The provider did not answer in time", True),
    (httpx.TransportError, "connection_failed", "The connection to the provider failed", True),
    (httpx2.TransportError, "connection_failed", "The connection to the provider failed", True),
    (ConnectionError, "connection_failed", "The connection to the provider failed", True),
)
_ANSWERED = ("refused", "cut_off")


def typed(error: Exception, seconds: float) -> ModelError:
    """What an exception of the library, an SDK or a transport means. One that nobody knows is not asked again."""
    if isinstance(error, ModelError):
        return error
    kind, meaning, retryable = next(
        (entry[1:] for entry in _KINDS if isinstance(error, entry[0])), (type(error).__name__, "", False)
    )
    if isinstance(error, library.ModelAPIError) and not meaning:
        refused = isinstance(error, library.ModelHTTPError) and error.status_code not in (408, 409, 425)
        if refused:
            kind, meaning = "rejected", "The provider refuses the request as it is"
        else:
            kind, meaning, retryable = "provider_error", "The provider reported an error", True
    said = str(error) or (f"no answer within {seconds:g} seconds" if kind == "timeout" else type(error).__name__)
    return ModelError(
        kind,
        f"{meaning}: {said}" if meaning else said,
        retryable=retryable,
        retry_after=getattr(error, "retry_after", None),
        answered=kind in _ANSWERED,
    )
