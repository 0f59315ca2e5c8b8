"""Models: where an agent's next step comes from (DESIGN §12).

A provider turns the part of a model name after its prefix into a pydantic-ai `Model`; everything the runtime says to
a model goes through that library's direct request interface, so a scripted model, a rule and a vendor's model are one
kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class Provider(Protocol):
    """`CAYU_PROVIDERS = {"prefix": "dotted.path.of.a.provider"}`; called once per worker and model name."""

    def __call__(self, name: str) -> Model: ...


class ModelError(Exception):
    """A model gave no usable step; nothing of what it said is kept. A provider's `Model` may raise it itself.

    `kind` is a stable word, the message one sentence without secrets. `retryable`: the same request may succeed later,
    not before `retry_after` seconds where the provider said so. `answered`: the model was reached and this is its
    answer (cut off, refused), so no other model is asked for a better one. `usage` holds the tokens that were paid all
    the same.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        answered: bool = False,
        usage: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.answered = answered
        self.usage = dict(usage or {})


@dataclass(frozen=True, slots=True)
class TextHint:
    """Text of an answer that a model is still giving: for eyes, never for decisions.

    It may be lost, repeated by another try, or belong to an answer that is thrown away, and is stored nowhere; what
    counts is the transcript. `offset` is the number of characters before this in the same answer: 0 begins a new one,
    and what was shown of an earlier one for this step is void. `step` counts from 0.
    """

    tenant: UUID
    session: UUID
    step: int
    model: str
    offset: int
    text: str


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
