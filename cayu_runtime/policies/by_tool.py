"""Another policy for each tool: the first rule whose name fits."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass

from ..contracts import Agent, PolicyIdentity, PolicyRequest, PolicyResult, Tool, ToolPolicy
from ..contracts.policy import coverage_of, names_of, paths_of
from .asking import DEFAULT_SECONDS, ask, deny, outside_loop
from .parameters import check_policy, check_seconds, check_tool_name, check_version, fits, identity_of, overlap


@dataclass(frozen=True, slots=True)
class ByTool:
    """The first rule whose name fits the tool answers: `{"refund": RequireApproval(…), "read_*": Allow(("*",))}`.

    No rule fits: `otherwise` answers; without it the call is denied. An async policy may take `seconds`.
    """

    rules: Mapping[str, ToolPolicy] | tuple[tuple[str, ToolPolicy], ...]
    otherwise: ToolPolicy | None = None
    seconds: float = DEFAULT_SECONDS
    version: str = "1"

    def __post_init__(self) -> None:
        check_version(self)
        check_seconds(self, "seconds", 60)
        if not isinstance(self.rules, Mapping) or not self.rules:
            raise TypeError("ByTool: rules must map tool names to policies, like {'refund': RequireApproval(('*',))}.")
        rules = tuple(self.rules.items())
        object.__setattr__(self, "rules", rules)  # pairs: their order is part of the identity
        for position, (name, policy) in enumerate(rules):
            check_tool_name(self, name)
            earlier = [o for o, _ in rules[:position] if o.endswith("*") and fits((o,), name.rstrip("*"))]
            if earlier:
                raise ValueError(f"ByTool: the rule {name!r} is never reached. Put it before {earlier[0]!r}.")
            check_policy(self, f"rules[{name!r}]", policy)
        if self.otherwise is not None:
            check_policy(self, "otherwise", self.otherwise)

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "by_tool")

    def authorize(self, request: PolicyRequest) -> PolicyResult | Awaitable[PolicyResult]:
        policy = self._rule_for(request.tool)
        if policy is None:
            return deny(f"No policy answers for the tool {request.tool!r}.")
        return outside_loop(lambda: ask(policy, request, self.seconds))

    def covers(self, agent: Agent, tool: Tool) -> bool | None:
        policy = self._rule_for(tool.spec.name)
        return False if policy is None else coverage_of(policy, agent, tool)

    def names(self) -> frozenset[str]:
        parts = [policy for _, policy in self._pairs] + ([self.otherwise] if self.otherwise is not None else [])
        return frozenset(name for name, _ in self._pairs).union(*map(names_of, parts))

    def argument_paths(self) -> frozenset[tuple[str, str]]:
        """A rule is asked about the tools of its own name alone, whatever tools its parts name."""
        found = set(paths_of(self.otherwise))
        for name, policy in self._pairs:
            pairs = [(overlap(name, tool), path) for tool, path in paths_of(policy)]
            found.update((tool, path) for tool, path in pairs if tool is not None)
        return frozenset(found)

    @property
    def _pairs(self) -> tuple[tuple[str, ToolPolicy], ...]:
        assert isinstance(self.rules, tuple)  # since it was built
        return self.rules

    def _rule_for(self, tool: str) -> ToolPolicy | None:
        return next((policy for name, policy in self._pairs if fits((name,), tool)), self.otherwise)
