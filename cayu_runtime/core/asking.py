"""What a tool asks a person, read before anything of its round runs: cleaned, bounded, never half of it."""

from __future__ import annotations

import math
from typing import Any

from ..contracts import Ask, InvalidArguments, Tool
from ..contracts.question import (
    DEFAULT_ANSWER_SECONDS,
    MAX_ANSWER_SECONDS,
    MAX_CHOICE,
    MAX_CHOICES,
    MAX_QUESTION,
)
from . import results


def asked(tool: Tool, arguments: dict[str, Any]) -> Ask:
    """The question of a call as a person will read it. InvalidArguments says, for the model, what is wrong with it."""
    ask = tool.ask(arguments)
    if not isinstance(ask, Ask) or not isinstance(ask.choices, (tuple, list)):
        raise TypeError(f"{type(tool).__name__}.ask must return an Ask; its choices are a tuple.")
    if {type(text) for text in (ask.text, *ask.choices)} != {str}:
        raise TypeError(f"{type(tool).__name__}.ask must ask, and give choices, in texts.")
    text = results.visible(ask.text)
    if not text:
        raise InvalidArguments("The question is empty. Say what the person should answer.")
    if len(text) > MAX_QUESTION:
        raise InvalidArguments(f"The question has {len(text)} characters; at most {MAX_QUESTION} are asked.")
    return Ask(text, _choices(ask.choices), _seconds(ask.expires_in))


def _choices(given: tuple[str, ...]) -> tuple[str, ...]:
    choices = tuple(" ".join(results.visible(choice).split()) for choice in given)
    if len(choices) == 1 or len(choices) > MAX_CHOICES:
        raise InvalidArguments(f"{len(choices)} choices: give 2 to {MAX_CHOICES}, or none for an answer in words.")
    if not all(1 <= len(choice) <= MAX_CHOICE for choice in choices):
        raise InvalidArguments(f"Each choice has 1 to {MAX_CHOICE} characters that can be seen.")
    if len(set(choices)) < len(choices):
        raise InvalidArguments("Two choices look the same. Give different ones.")
    return choices


def _seconds(given: float | None) -> float:
    """The time limit: never none, never longer than the cap."""
    if given is None:
        return DEFAULT_ANSWER_SECONDS
    if not math.isfinite(given) or given < 1:
        raise InvalidArguments("The time to answer must be at least one second.")
    return min(float(given), MAX_ANSWER_SECONDS)
