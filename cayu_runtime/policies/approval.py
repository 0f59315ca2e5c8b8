"""Ask a person for listed tools, allow the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..contracts import Agent, Agreement, PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, Tool
from .parameters import MAX_APPROVAL_SECONDS, check_seconds, check_texts, check_tools, fits, identity_of


@dataclass(frozen=True, slots=True)
class RequireApproval:
    """Each call of a tool in `tools` waits for a person, at most `expires_in` seconds; other tools are allowed.

    `expires_in` None means 7 days; more than 30 is refused. `four_eyes` None means the default of the tool's effect
    class: on for EXTERNAL. The approver reads `reason`. To deny other tools instead, put this into `ByTool`.

    With `editable` the approver may change the arguments first; under four eyes somebody else then approves what they
    wrote. Use it behind guards (`Guarded`) that bound each argument that matters; an edit is put to them again.

    `agreement` says who must agree, if one approver is not enough: `Agreement((Stage(people=2), Stage(tier=2)))`. With
    `mandatory` a person sees each call: no standing grant lets one pass; none does where there is an agreement.
    """

    tools: tuple[str, ...]
    expires_in: float | None = None
    four_eyes: bool | None = None
    reason: str = "This tool needs a person's approval."
    editable: bool = False
    version: str = "1"
    agreement: Agreement | None = field(default=None, metadata={"added": True})
    mandatory: bool = field(default=False, metadata={"added": True})

    def __post_init__(self) -> None:
        check_tools(self)
        check_texts(self)
        if self.expires_in is not None:
            check_seconds(self, "expires_in", MAX_APPROVAL_SECONDS)
        if not isinstance(self.four_eyes, bool | None):
            raise TypeError("RequireApproval: four_eyes is True, False or None (the default of the effect class).")
        for name in ("editable", "mandatory"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"RequireApproval: {name} is True or False.")
        if not isinstance(self.agreement, Agreement | None):
            raise TypeError("RequireApproval: agreement is an Agreement(…) or None.")

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "require_approval")

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        if not fits(self.tools, request.tool):
            return PolicyResult(PolicyDecision.ALLOW)
        return PolicyResult(
            PolicyDecision.REQUIRE_APPROVAL,
            self.reason,
            self.expires_in,
            self.four_eyes,
            editable=self.editable,
            agreement=self.agreement,
            mandatory=self.mandatory,
        )

    def covers(self, agent: Agent, tool: Tool) -> bool:
        return True

    def names(self) -> frozenset[str]:
        return frozenset(self.tools)
