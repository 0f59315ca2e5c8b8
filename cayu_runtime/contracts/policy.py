"""Policies: who or what must agree before a call may run (DESIGN §8)."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import rfc8785

from .agreement import Agreement
from .effect import ToolEffect

if TYPE_CHECKING:
    from .agent import Agent
    from .tool import Tool


class PolicyDecision(StrEnum):
    ALLOW = "allow"
    DENY = "deny"
    REQUIRE_APPROVAL = "require_approval"


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """A frozen view of one proposed call. Arguments are the effective ones; a policy can't change them.

    `environment` is the label that the agent was declared with (`production`, `staging`, …), empty if it has none.
    """

    tenant: str
    session_id: str
    agent: str
    tool: str
    tool_version: str
    effect: ToolEffect
    arguments: Mapping[str, Any]
    requester: str
    agent_version: str = ""
    environment: str = ""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The recorded proposal that a policy compared a call with: its `action_id` and the hex digest of its fields.

    The call becomes that action: one operation, one use. When the call is recorded, and again before it is dispatched,
    the proposal must still be open, be of the same session and tool, and have this digest.
    """

    action_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """A policy's answer for one call.

    `expires_in` (seconds) bounds how long an approval may wait, 7 days by default and 30 at most. `four_eyes` None
    means the default of the effect class: on for EXTERNAL. `reviewed` binds the call to a recorded proposal.

    With `editable` the approver may change the arguments before approving; a reviewed action's never. Under four eyes
    somebody else must then approve what they wrote. An edit is put to the policy again, and is refused if it denies or
    wants more than this answer did. So say True only where rules bound every argument that matters.

    `agreement` says who must agree, if one approver is not enough. `mandatory`: a person must see this very call; no
    standing grant lets it pass. Neither does one where there is an agreement.
    """

    decision: PolicyDecision
    reason: str = ""
    expires_in: float | None = None
    four_eyes: bool | None = None
    reviewed: Reviewed | None = None
    editable: bool = False
    agreement: Agreement | None = None
    mandatory: bool = False


@dataclass(frozen=True, slots=True)
class PolicyIdentity:
    """What an approval is bound to beside the call: which policy asked for it, in which version and parameters.

    `parameters` are JSON, and hold everything that the answers depend on: a change voids the approvals that wait.
    """

    name: str
    version: str
    parameters: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Hex SHA-256 over the RFC 8785 form. Raises ValueError when something in it is not exact JSON."""
        whole: dict[str, Any] = {"name": self.name, "version": self.version, "parameters": self.parameters}
        try:
            return hashlib.sha256(rfc8785.dumps(whole)).hexdigest()
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"The identity of policy {self.name!r} must be plain JSON: {error}.") from None


@runtime_checkable
class ToolPolicy(Protocol):
    """Answers for each call before anything of its round runs. May be async. An exception denies.

    Three methods are optional. `covers(agent, tool) -> bool | None`: whether a rule of this policy answers for the tool
    (None: unknown). `names() -> Iterable[str]`: the tools, or beginnings as `read_*`, that it was written for.
    `argument_paths() -> Iterable[tuple[str, str]]`: pairs of such a name and an argument's path that a rule looks at.
    System checks ask them at start; none is asked about a call.
    """

    @property
    def identity(self) -> PolicyIdentity: ...

    def authorize(self, request: PolicyRequest) -> PolicyResult | Awaitable[PolicyResult]: ...


@runtime_checkable
class Guard(Protocol):
    """Narrows what a policy may answer, in `Guarded(guards=…, then=…)`. May be async.

    `check` returns None (no objection) or a PolicyResult that denies. Anything else, an exception too, denies; so a
    guard can never permit a call. What it does to its request, nobody else sees. `names` and `argument_paths` as for a
    policy.
    """

    @property
    def identity(self) -> PolicyIdentity: ...

    def check(self, request: PolicyRequest) -> PolicyResult | Awaitable[PolicyResult | None] | None: ...


def coverage_of(policy: Any, agent: Agent, tool: Tool) -> bool | None:
    """Whether a rule of `policy` answers for this tool; None when it can't say. Runs no guard.

    A subclass that answers in its own way and inherits `covers` is unknown: the inherited word isn't about it.
    """
    covers = _plain_method(policy, "covers")
    if covers is None:
        return None
    order = [vars(kind) for kind in type(policy).__mro__]
    answers = next((n for n, own in enumerate(order) if "authorize" in own), len(order))
    speaks = next((n for n, own in enumerate(order) if "covers" in own), 0)
    if answers < speaks:
        return None
    said = covers(agent, tool)
    return said if isinstance(said, bool) else None


def names_of(part: Any) -> frozenset[str]:
    """The tools, or beginnings of names, that a policy or guard was written for; empty when it can't say."""
    names = _plain_method(part, "names")
    said: Iterable[str] = names() if names is not None else ()
    return frozenset(said)


def paths_of(part: Any) -> frozenset[tuple[str, str]]:
    """Each argument's path that a rule of a policy or guard looks at, with the tool's name, or its beginning."""
    paths = _plain_method(part, "argument_paths")
    said: Iterable[tuple[str, str]] = paths() if paths is not None else ()
    return frozenset((tool, path) for tool, path in said)


def _plain_method(part: Any, name: str) -> Callable[..., Any] | None:
    method = getattr(part, name, None)
    if inspect.iscoroutinefunction(method):
        raise TypeError(f"{type(part).__name__}.{name} must not be async: it is asked at start, about no call.")
    return method if callable(method) else None
