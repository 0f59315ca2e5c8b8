"""Who must agree to a request, and who has: what a page says of an approval that one approver is not enough for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cayu_runtime.models import Approval, Decision
from cayu_runtime.selectors.approval import agreed_so_far


@dataclass(frozen=True, slots=True)
class Stage:
    """`people` of `tier` or above. `state` is `done`, `now` or `later`; `needed` more are asked in the present one."""

    people: int
    tier: int
    state: str
    needed: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """The stages in their order, those who agreed so far, and when a tier more is asked for."""

    stages: tuple[Stage, ...]
    agreed: tuple[Decision, ...]
    escalate_at: datetime | None
    conditions: bool


def agreement_of(approval: Approval) -> Agreement | None:
    """None where one approver of any tier is enough. Reads the decisions."""
    asked = approval.agreement
    if asked is None:
        return None
    stages = []
    for number, (people, tier) in enumerate(asked["stages"]):
        state = "done" if number < approval.stage else "now" if number == approval.stage else "later"
        present = state == "now"
        stages.append(Stage(people, approval.tier if present else tier, state, approval.needed if present else people))
    return Agreement(tuple(stages), tuple(agreed_so_far(approval)), approval.escalate_at, asked["conditions"])
