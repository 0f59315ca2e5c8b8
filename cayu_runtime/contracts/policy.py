"""Policies: who or what must agree before a call may run (DESIGN §8)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from .effect import ToolEffect


class PolicyDecision(StrEnum):
    ALLOW = "allow"
    DENY = "deny"
    REQUIRE_APPROVAL = "require_approval"


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """A frozen view of one proposed call. Arguments are the effective ones; a policy can't change them."""

    tenant: str
    session_id: str
    agent: str
    tool: str
    tool_version: str
    effect: ToolEffect
    arguments: Mapping[str, Any]
    requester: str


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """A policy's answer for one call.

    `expires_in` (seconds) bounds how long an approval may wait, 7 days by default and 30 at most. `four_eyes` None
    means the default of the effect class: on for EXTERNAL.
    """

    decision: PolicyDecision
    reason: str = ""
    expires_in: float | None = None
    four_eyes: bool | None = None


@dataclass(frozen=True, slots=True)
class PolicyIdentity:
    """What an approval is bound to beside the call: which policy asked for it, in which version and parameters."""

    name: str
    version: str
    parameters: Mapping[str, Any]


@runtime_checkable
class ToolPolicy(Protocol):
    """Answers for each call before anything of its round runs. May be async. An exception denies."""

    @property
    def identity(self) -> PolicyIdentity: ...

    def authorize(self, request: PolicyRequest) -> PolicyResult | Awaitable[PolicyResult]: ...
