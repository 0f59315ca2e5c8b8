"""Guards, then a policy."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

from ..contracts import Agent, Guard, PolicyIdentity, PolicyRequest, PolicyResult, Tool, ToolPolicy
from ..contracts.policy import coverage_of, names_of, paths_of
from .asking import DEFAULT_SECONDS, ask, check, outside_loop
from .parameters import check_guard, check_policy, check_seconds, check_version, identity_of, set_tuple


@dataclass(frozen=True, slots=True)
class Guarded:
    """`guards` are asked in their order; the first that objects denies the call. If none does, `then` answers.

    Each guard and `then` sees a request of its own, so none can change what the next one sees. An async one may take
    `seconds`. The identity holds those of all parts.
    """

    guards: tuple[Guard, ...]
    then: ToolPolicy
    seconds: float = DEFAULT_SECONDS
    version: str = "1"

    def __post_init__(self) -> None:
        check_version(self)
        check_seconds(self, "seconds", 60)
        set_tuple(self, "guards")
        if not self.guards:
            raise ValueError("Guarded: guards is empty. Give at least one guard, or use the policy in `then` alone.")
        for position, guard in enumerate(self.guards):
            check_guard(self, f"guards[{position}]", guard)
        check_policy(self, "then", self.then)

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "guarded")

    def authorize(self, request: PolicyRequest) -> PolicyResult | Awaitable[PolicyResult]:
        return outside_loop(lambda: self._decide(request))

    def _decide(self, request: PolicyRequest) -> PolicyResult:
        for guard in self.guards:
            objection = check(guard, request, self.seconds)
            if objection is not None:
                return objection
        return ask(self.then, request, self.seconds)

    def covers(self, agent: Agent, tool: Tool) -> bool | None:
        return coverage_of(self.then, agent, tool)

    def names(self) -> frozenset[str]:
        return names_of(self.then).union(*map(names_of, self.guards))

    def argument_paths(self) -> frozenset[tuple[str, str]]:
        return paths_of(self.then).union(*map(paths_of, self.guards))
