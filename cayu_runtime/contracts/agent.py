"""Agents are declared in code, in an app's `agents.py` (DESIGN §2, §9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .policy import ToolPolicy
from .provider import Rule
from .tool import NAME, Tool


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one session: model steps in a row without a person, and calls in one round."""

    max_steps: int = 25
    max_calls_per_round: int = 32


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent. `model` is a model name (`openai:gpt-…`), several of them in the order in which they are asked when
    one is unavailable, or a rule: a function from Turn to Reply. Empty: the deployment's CAYU_MODEL.

    `resources` reach tools through `ToolContext.require(name)`. `environment` is a label for policies (`production`,
    `staging`, …): where this declaration of the agent acts.
    """

    name: str
    model: str | tuple[str, ...] | Rule
    instructions: str = ""
    tools: tuple[Tool, ...] = ()
    policy: ToolPolicy | None = None
    version: str = "1"
    limits: Limits = field(default_factory=Limits)
    resources: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    example: str = ""
    environment: str = ""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or not 1 <= len(self.version) <= 40:
            raise ValueError(
                f"Agent {self.name!r}: a name has 1 to 64 letters, digits, '_' or '-', a version 1 to 40 characters."
            )
        if self.environment and not NAME.fullmatch(self.environment):
            raise ValueError(f"Agent {self.name!r}: an environment has 1 to 64 letters, digits, '_' or '-', or is ''.")
        if isinstance(self.model, tuple) and not (self.model and all(isinstance(m, str) and m for m in self.model)):
            raise ValueError(f"Agent {self.name!r}: a tuple of models has at least one, and each is a model name.")

    def models(self, default: str) -> tuple[str | Rule, ...]:
        """The models in the order in which they are asked; `default` where the agent names none."""
        return self.model if isinstance(self.model, tuple) else (self.model or default,)
