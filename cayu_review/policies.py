"""The reviewed-action policy: a call waits for a person only as what was put on record before (DESIGN §8)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import rfc8785

from cayu_runtime import PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, Reviewed
from cayu_runtime.models import Proposal
from cayu_runtime.selectors.proposal import find_proposal


@dataclass(frozen=True, slots=True)
class ReviewedAction:
    """Each call of a tool in `tools` must equal, field by field, a proposal that the session recorded in an earlier
    round for that tool; then it waits for a person. Otherwise it is denied, and told why.

    Tools in `allows` need nobody, such as the one that records and those that read; every other tool is denied.
    `expires_in` (seconds) bounds how long it may wait, never longer than its proposal is open. `four_eyes` None means
    the default of the tool's effect class: on for EXTERNAL. ValueError when it can't work as it is constructed.
    """

    tools: tuple[str, ...]
    allows: tuple[str, ...] = ()
    expires_in: float | None = None
    four_eyes: bool | None = None
    reason: str = "It equals the recorded proposal; a person must authorise it."
    version: str = "1"

    def __post_init__(self) -> None:
        for name, listed in (("tools", self.tools), ("allows", self.allows)):
            if not isinstance(listed, tuple) or not all(isinstance(tool, str) and tool for tool in listed):
                raise ValueError(f"ReviewedAction: {name} is a tuple of tool names, not {listed!r}.")
        if not self.tools:
            raise ValueError("ReviewedAction: name at least one tool whose calls must be proposed first.")
        both = sorted(set(self.tools) & set(self.allows))
        if both:
            raise ValueError(f"ReviewedAction: {both[0]!r} is both reviewed and allowed. Choose one.")
        seconds = self.expires_in
        if seconds is not None and (isinstance(seconds, bool) or not math.isfinite(seconds) or seconds <= 0):
            raise ValueError(f"ReviewedAction: expires_in is a number of seconds above 0, not {seconds!r}.")

    @property
    def identity(self) -> PolicyIdentity:
        parameters = {
            "tools": list(self.tools),
            "allows": list(self.allows),
            "expires_in": self.expires_in,
            "four_eyes": self.four_eyes,
        }
        return PolicyIdentity("reviewed_action", self.version, parameters)

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        if request.tool in self.allows:
            return PolicyResult(PolicyDecision.ALLOW)
        if request.tool not in self.tools:
            return _denied(f"{request.tool} is outside of what this agent may do.")
        action_id = request.arguments.get("action_id")
        if not isinstance(action_id, str):
            return _denied("The call names no action_id. Record a proposal first, then ask for exactly that.")
        proposal = find_proposal(UUID(request.tenant), action_id)
        if proposal is None or proposal.session.session_id != request.session_id:
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


def differing_fields(fields: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """The names of what is not exactly equal as JSON, type included, or stands on one side alone; sorted."""
    return sorted(name for name in set(fields) | set(arguments) if _exact(fields, name) != _exact(arguments, name))


def _exact(values: Mapping[str, Any], name: str) -> bytes | None:
    return rfc8785.dumps(values[name]) if name in values else None


def _denied(reason: str) -> PolicyResult:
    return PolicyResult(PolicyDecision.DENY, reason)
