"""Another policy for each environment."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..contracts import Agent, PolicyIdentity, PolicyRequest, PolicyResult, Tool, ToolPolicy
from ..contracts.policy import coverage_of, names_of, paths_of
from .asking import DEFAULT_SECONDS, ask, deny, outside_loop
from .parameters import check_label, check_policy, check_seconds, check_version, identity_of


@dataclass(frozen=True, slots=True)
class ByEnvironment:
    """The policy that stands in `rules` under the agent's `environment` answers. A label that is not there, or none,
    denies. An async policy may take `seconds`.
    """

    rules: Mapping[str, ToolPolicy]
    seconds: float = DEFAULT_SECONDS
    version: str = "1"

    def __post_init__(self) -> None:
        check_version(self)
        check_seconds(self, "seconds", 60)
        if not isinstance(self.rules, Mapping) or not self.rules:
            raise TypeError("ByEnvironment: rules must map labels to policies, like {'production': Deny()}.")
        object.__setattr__(self, "rules", MappingProxyType(dict(self.rules)))
        for label, policy in self.rules.items():
            check_label(self, "rules", label)
            check_policy(self, f"rules[{label!r}]", policy)

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "by_environment")

    def authorize(self, request: PolicyRequest) -> PolicyResult | Awaitable[PolicyResult]:
        policy = self.rules.get(request.environment)
        if policy is None:
            return deny(f"No policy answers for the environment {request.environment!r}.")
        return outside_loop(lambda: ask(policy, request, self.seconds))

    def covers(self, agent: Agent, tool: Tool) -> bool | None:
        policy = self.rules.get(agent.environment)
        return False if policy is None else coverage_of(policy, agent, tool)

    def names(self) -> frozenset[str]:
        return frozenset().union(*map(names_of, self.rules.values()))

    def argument_paths(self) -> frozenset[tuple[str, str]]:
        return frozenset().union(*map(paths_of, self.rules.values()))
