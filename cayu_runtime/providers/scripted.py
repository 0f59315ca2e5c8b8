"""A model that says what it was told to say, step by step: for tests and benchmarks.

The step is found by counting the model's own messages in the transcript, so a script goes on at the right place in
another process.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage, ModelResponse

from ..contracts import Reply
from .rules import LocalModel


class ScriptExhausted(RuntimeError):
    """The model was asked for more steps than its script has."""


def scripted_model(script: Sequence[Reply]) -> LocalModel:
    """A model that gives the replies of `script`, one to a step."""

    def answer(messages: list[ModelMessage]) -> Reply:
        step = sum(isinstance(message, ModelResponse) for message in messages)
        if step >= len(script):
            raise ScriptExhausted(f"The script has {len(script)} steps; step {step + 1} was asked for.")
        return script[step]

    return LocalModel("scripted", answer)
