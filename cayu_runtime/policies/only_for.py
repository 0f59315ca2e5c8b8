"""Tools that only some agents, versions of them, or environments may use."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts import PolicyIdentity, PolicyRequest, PolicyResult
from .asking import deny
from .parameters import check_labels, check_texts, check_tools, fits, identity_of


@dataclass(frozen=True, slots=True)
class OnlyFor:
    """A guard: calls of `tools` are denied unless the agent's name, its version and its environment are all listed.

    What is left empty is not asked for; one of the three must be given. The environment is the label that the agent
    was declared with: `Agent(environment="staging")`. An agent without one is in none of those listed.
    """

    tools: tuple[str, ...]
    agents: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    reason: str = "This tool may not be used by this agent here."
    version: str = "1"

    def __post_init__(self) -> None:
        check_tools(self)
        check_texts(self)
        for name in ("agents", "versions", "environments"):
            check_labels(self, name)
        if not (self.agents or self.versions or self.environments):
            raise ValueError("OnlyFor: give agents, versions or environments, at least one of them.")

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "only_for")

    def check(self, request: PolicyRequest) -> PolicyResult | None:
        if not fits(self.tools, request.tool):
            return None
        asked = (
            (self.agents, request.agent),
            (self.versions, request.agent_version),
            (self.environments, request.environment),
        )
        return None if all(not listed or own in listed for listed, own in asked) else deny(self.reason)

    def names(self) -> frozenset[str]:
        return frozenset(self.tools)
