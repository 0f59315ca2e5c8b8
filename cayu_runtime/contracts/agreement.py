"""Who must agree to a call, where one approver is not enough (DESIGN §8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_PEOPLE, MAX_TIER, MAX_STAGES = 20, 9, 9
MAX_ESCALATION = 30 * 86400.0
MAX_CONDITION = 500


@dataclass(frozen=True, slots=True)
class Stage:
    """`people` different approvers, each of `tier` or above (1 to 9)."""

    people: int = 1
    tier: int = 1

    def __post_init__(self) -> None:
        for name, most in (("people", MAX_PEOPLE), ("tier", MAX_TIER)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(f"Stage: {name} is {value!r:.80}. Give a whole number from 1 to {most}.")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Who must agree, in place of one approver of any tier.

    The stages are asked one after the other, and nobody counts twice. One denial ends it. With `escalate_after`
    (seconds) a stage that is not complete by then needs a tier more from there on, once per stage; time never counts as
    an agreement. With `conditions` an approver may attach a condition, which the tool and the model are given.
    """

    stages: tuple[Stage, ...] = (Stage(),)
    escalate_after: float | None = None
    conditions: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.stages, Stage) or not all(isinstance(stage, Stage) for stage in self.stages):
            raise TypeError("Agreement: stages is a tuple of Stage, like (Stage(people=2), Stage(tier=2)).")
        object.__setattr__(self, "stages", tuple(self.stages))
        if not 1 <= len(self.stages) <= MAX_STAGES:
            raise ValueError(f"Agreement: give 1 to {MAX_STAGES} stages.")
        if [stage.tier for stage in self.stages] != sorted(stage.tier for stage in self.stages):
            raise ValueError("Agreement: the stages go upwards: no tier may be lower than the one before it.")
        seconds = self.escalate_after
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
            raise TypeError("Agreement: escalate_after is a number of seconds, or None.")
        if seconds is not None and not 0 < seconds <= MAX_ESCALATION:
            raise ValueError(f"Agreement: escalate_after is {seconds}. Give seconds up to {MAX_ESCALATION:g}.")
        if not isinstance(self.conditions, bool):
            raise TypeError("Agreement: conditions is True or False.")

    @property
    def parameters(self) -> dict[str, Any]:
        """As part of a policy's identity."""
        stages = [[stage.people, stage.tier] for stage in self.stages]
        return {"stages": stages, "escalate_after": self.escalate_after, "conditions": self.conditions}
