"""Allow listed tools, deny the rest."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts import Agent, PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, Tool
from .parameters import check_texts, check_tools, fits, identity_of


@dataclass(frozen=True, slots=True)
class Allow:
    """Each call of a tool in `tools` runs without a person; every other tool is denied, with `reason`."""

    tools: tuple[str, ...]
    reason: str = "No policy allows this tool."
    version: str = "1"

    def __post_init__(self) -> None:
        check_tools(self)
        check_texts(self)

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "allow")

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        if fits(self.tools, request.tool):
            return PolicyResult(PolicyDecision.ALLOW)
        return PolicyResult(PolicyDecision.DENY, self.reason)

    def covers(self, agent: Agent, tool: Tool) -> bool:
        return fits(self.tools, tool.spec.name)

    def names(self) -> frozenset[str]:
        return frozenset(self.tools)
