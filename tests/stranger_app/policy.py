"""A policy: who must agree before an account is closed."""

from __future__ import annotations

from dataclasses import dataclass

from cayu_runtime import PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult


@dataclass(frozen=True, slots=True)
class ProtectAccounts:
    """Closing needs a person within a day; accounts whose name begins with `protected` are never closed."""

    protected: str

    @property
    def identity(self) -> PolicyIdentity:
        return PolicyIdentity("protect_accounts", "1", {"protected": self.protected})

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        if request.tool != "close_account":
            return PolicyResult(PolicyDecision.ALLOW)
        if str(request.arguments["account"]).startswith(self.protected):
            return PolicyResult(PolicyDecision.DENY, "This account is protected.")
        return PolicyResult(PolicyDecision.REQUIRE_APPROVAL, "An account can't be opened again.", expires_in=86_400)
