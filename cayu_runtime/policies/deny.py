"""Deny every call, or, as a guard, the calls of listed tools."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts import Agent, PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, Tool
from .parameters import check_texts, check_tools, fits, identity_of


@dataclass(frozen=True, slots=True)
class Deny:
    """A policy that denies every call: a rule's answer for what must not happen. The model is told `reason`."""

    reason: str = "This tool may not be used."
    version: str = "1"

    def __post_init__(self) -> None:
        check_texts(self)

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "deny")

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        return PolicyResult(PolicyDecision.DENY, self.reason)

    def covers(self, agent: Agent, tool: Tool) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class DenyTools:
    """A guard that denies each call of a tool in `tools`, and says nothing about others."""

    tools: tuple[str, ...]
    reason: str = "This tool may not be used."
    version: str = "1"

    def __post_init__(self) -> None:
        check_tools(self)
        check_texts(self)

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "deny_tools")

    def check(self, request: PolicyRequest) -> PolicyResult | None:
        return PolicyResult(PolicyDecision.DENY, self.reason) if fits(self.tools, request.tool) else None

    def names(self) -> frozenset[str]:
        return frozenset(self.tools)
