"""The reviewed-action policy: a call waits for a person only as what was put on record before (DESIGN §8)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from uuid import UUID

from cayu_runtime import Agent, PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, Reviewed, Tool
from cayu_runtime.models import Proposal
from cayu_runtime.policies.asking import outside_loop
from cayu_runtime.policies.parameters import (
    MAX_APPROVAL_SECONDS,
    check_seconds,
    check_texts,
    check_tool_name,
    check_tools,
    fits,
    identity_of,
    set_tuple,
)
from cayu_runtime.selectors.proposal import find_proposal

from .compare import differing_fields


@dataclass(frozen=True, slots=True)
class ReviewedAction:
    """Each call of a tool in `tools` must equal, field by field, a proposal that the session recorded in an earlier
    round for that tool; then it waits for a person. Otherwise it is denied, and told why.

    Tools in `allows` need nobody, such as the one that records and those that read; every other tool is denied.
    `expires_in` (seconds) bounds how long it may wait, never longer than its proposal is open. `four_eyes` None means
    the default of the tool's effect class: on for EXTERNAL. What can't work raises when it is built, and says the fix.
    """

    tools: tuple[str, ...]
    allows: tuple[str, ...] = ()
    expires_in: float | None = None
    four_eyes: bool | None = None
    reason: str = "It equals the recorded proposal; a person must authorise it."
    version: str = "1"

    def __post_init__(self) -> None:
        check_tools(self)
        check_texts(self)
        set_tuple(self, "allows")
        for name in self.allows:
            check_tool_name(self, name)
        both = sorted(set(self.tools) & set(self.allows))
        if both:
            raise ValueError(f"ReviewedAction: {both[0]!r} is both reviewed and allowed. Choose one.")
        if self.expires_in is not None:
            check_seconds(self, "expires_in", MAX_APPROVAL_SECONDS)
        if not isinstance(self.four_eyes, bool | None):
            raise TypeError("ReviewedAction: four_eyes is True, False or None (the default of the effect class).")

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "reviewed_action")

    def covers(self, agent: Agent, tool: Tool) -> bool:
        return fits((*self.tools, *self.allows), tool.spec.name)

    def names(self) -> frozenset[str]:
        return frozenset((*self.tools, *self.allows))

    def authorize(self, request: PolicyRequest) -> PolicyResult | Awaitable[PolicyResult]:
        if not fits(self.tools, request.tool):
            if fits(self.allows, request.tool):
                return PolicyResult(PolicyDecision.ALLOW)
            return _denied(f"{request.tool} is outside of what this agent may do.")
        action_id = request.arguments.get("action_id")
        if not isinstance(action_id, str):
            return _denied("The call names no action_id. Record a proposal first, then ask for exactly that.")
        return outside_loop(lambda: self._compare(request, action_id))

    def _compare(self, request: PolicyRequest, action_id: str) -> PolicyResult:
        proposal = find_proposal(UUID(request.tenant), request.session_id, action_id)
        if proposal is None:
            return _denied(
                f"This session recorded no proposal {action_id!r} in an earlier round. Record it and wait for the "
                "result, then ask for the action; both in one round are refused."
            )
        problem = _difference(proposal, request)
        if problem:
            return _denied(problem)
        reviewed = Reviewed(action_id, proposal.fields_digest.hex())
        return PolicyResult(
            PolicyDecision.REQUIRE_APPROVAL, self.reason, self.expires_in, self.four_eyes, reviewed=reviewed
        )


def _difference(proposal: Proposal, request: PolicyRequest) -> str:
    """Why the call is not what was proposed; empty if it is. A used proposal passes: the ledger knows its outcome."""
    if proposal.tool != request.tool:
        return f"Proposal {proposal.action_id!r} is for {proposal.tool}, not for {request.tool}."
    differing = differing_fields(proposal.fields, request.arguments)
    if differing:
        return f"The call differs from proposal {proposal.action_id!r} in: {', '.join(differing)}."
    if proposal.state in ("withdrawn", "expired"):
        return f"Proposal {proposal.action_id!r} is {proposal.state}. Propose under a new action_id."
    return ""


def _denied(reason: str) -> PolicyResult:
    return PolicyResult(PolicyDecision.DENY, reason)
