"""Several policies at once: what all of them agree to."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace

from ..contracts import (
    Agent,
    Agreement,
    PolicyDecision,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    Stage,
    Tool,
    ToolPolicy,
)
from ..contracts.policy import coverage_of, names_of, paths_of
from .asking import DEFAULT_SECONDS, ask, deny, outside_loop
from .parameters import check_policy, check_seconds, check_version, identity_of, set_tuple

DEFAULT_APPROVAL_SECONDS = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Strictest:
    """Each of `policies` is asked. One that denies denies; else one that wants a person has its way; else it's allowed.

    Of several approvals the shortest time limit holds (none said: 7 days), and four eyes if one says so, unless all say
    no the default of the effect class; arguments may be edited if all say so, and it is mandatory if one says so. Of
    each tier as many people must agree as the one that wants most of them says; it escalates as soon as one would. A
    proposal that one of them compared the call with binds it; two different ones deny. An async policy may take
    `seconds`.
    """

    policies: tuple[ToolPolicy, ...]
    seconds: float = DEFAULT_SECONDS
    version: str = "1"

    def __post_init__(self) -> None:
        check_version(self)
        check_seconds(self, "seconds", 60)
        set_tuple(self, "policies")
        if len(self.policies) < 2:
            raise ValueError("Strictest: give two policies or more; a single one needs no composition.")
        for position, policy in enumerate(self.policies):
            check_policy(self, f"policies[{position}]", policy)

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "strictest")

    def authorize(self, request: PolicyRequest) -> PolicyResult | Awaitable[PolicyResult]:
        return outside_loop(lambda: _strictest([ask(policy, request, self.seconds) for policy in self.policies]))

    def covers(self, agent: Agent, tool: Tool) -> bool | None:
        said = [coverage_of(policy, agent, tool) for policy in self.policies]
        return False if False in said else (None if None in said else True)

    def names(self) -> frozenset[str]:
        return frozenset().union(*map(names_of, self.policies))

    def argument_paths(self) -> frozenset[tuple[str, str]]:
        return frozenset().union(*map(paths_of, self.policies))


def _strictest(answers: Sequence[PolicyResult]) -> PolicyResult:
    for answer in answers:
        if answer.decision is PolicyDecision.DENY:
            return answer
    reviewed = {answer.reviewed for answer in answers if answer.reviewed is not None}
    if len(reviewed) > 1:
        return deny("The policies compared the call with different proposals; that denies.")
    proposal = next(iter(reviewed), None)
    asking = [answer for answer in answers if answer.decision is PolicyDecision.REQUIRE_APPROVAL]
    if not asking:
        return replace(answers[0], reviewed=proposal)
    limits = [answer.expires_in for answer in asking]
    said = [DEFAULT_APPROVAL_SECONDS if limit is None else limit for limit in limits]
    four_eyes = {answer.four_eyes for answer in asking}
    return PolicyResult(
        PolicyDecision.REQUIRE_APPROVAL,
        " ".join(dict.fromkeys(answer.reason for answer in asking if answer.reason)),
        None if limits == [None] * len(limits) else min(said),
        True if True in four_eyes else (None if None in four_eyes else False),
        proposal,
        all(answer.editable for answer in asking),
        _all_of([answer.agreement for answer in asking if answer.agreement is not None], len(asking)),
        any(answer.mandatory for answer in asking),
    )


def _all_of(wanted: Sequence[Agreement], policies: int) -> Agreement | None:
    """What satisfies each of them. A policy that said nothing is satisfied by any approver.

    ValueError, which denies, when that is more people than can be asked.
    """
    if len(wanted) < 2:
        single = wanted[0] if wanted else None
        return single if policies == len(wanted) or single is None else replace(single, conditions=False)
    people: dict[int, int] = {}
    for one in wanted:
        own: dict[int, int] = {}
        for stage in one.stages:
            own[stage.tier] = own.get(stage.tier, 0) + stage.people
        people = {tier: max(people.get(tier, 0), own.get(tier, 0)) for tier in people | own}
    times = [one.escalate_after for one in wanted if one.escalate_after is not None]
    stages = tuple(Stage(count, tier) for tier, count in sorted(people.items()))
    return Agreement(
        stages, min(times, default=None), len(wanted) == policies and all(one.conditions for one in wanted)
    )
