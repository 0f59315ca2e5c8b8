"""Ask a person for listed tools, allow the rest."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts import PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult


@dataclass(frozen=True, slots=True)
class RequireApproval:
    """Each call of a tool in `tools` waits for a person, at most `expires_in` seconds; other tools are allowed.

    `four_eyes` None means the default of the tool's effect class: on for EXTERNAL.
    """

    tools: tuple[str, ...]
    expires_in: float | None = None
    four_eyes: bool | None = None
    reason: str = "This tool needs a person's approval."
    version: str = "1"

    @property
    def identity(self) -> PolicyIdentity:
        parameters = {"tools": list(self.tools), "expires_in": self.expires_in, "four_eyes": self.four_eyes}
        return PolicyIdentity("require_approval", self.version, parameters)

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        if request.tool not in self.tools:
            return PolicyResult(PolicyDecision.ALLOW)
        return PolicyResult(PolicyDecision.REQUIRE_APPROVAL, self.reason, self.expires_in, self.four_eyes)
