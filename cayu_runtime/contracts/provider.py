"""Models: where an agent's next step comes from (DESIGN §12).

A provider turns the part of a model name after its prefix into a pydantic-ai `Model`; everything the runtime says to
a model goes through that library's direct request interface, so a scripted model, a rule and a vendor's model are one
kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class Provider(Protocol):
    """`CAYU_PROVIDERS = {"prefix": "dotted.path.of.a.provider"}`; called once per worker and model name."""

    def __call__(self, name: str) -> Model: ...


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call that a scripted or rule-based model wants."""

    tool: str
    arguments: Mapping[str, Any]
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One step of a scripted or rule-based model: text, calls, or both."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one call of the latest round ended, as the model is told: `status` is the call's final state."""

    tool: str
    call_id: str
    status: str
    content: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a rule sees: the person's latest message, and the results of the calls made since it."""

    message: str
    outcomes: tuple[Outcome, ...] = ()


Rule = Callable[[Turn], Reply]
