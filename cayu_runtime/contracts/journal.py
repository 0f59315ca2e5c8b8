"""A tool that keeps a journal of its own may offer what stands in it as evidence (DESIGN §7).

It is a reconciler like any other: a person asks, the same rules say what an answer permits, nothing is dispatched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .reconciler import Finding, Inquiry, Observation, Reconciler
from .tool import ToolResult


class Disposition(StrEnum):
    """What a journal proves. Its owner validates that the entry is about exactly this call."""

    CONFIRMED = "confirmed"
    """The journal holds the positive, terminal evidence of this very call."""
    NOT_STARTED = "not_started"
    """The journal shows that this dispatch had not begun. It counts as an absence and under the same rules: only when
    the dispatch is past its deadline and its executor is known to be gone."""
    UNRESOLVED = "unresolved"
    """Incomplete, invalid, conflicting or ambiguous. The effect stays as uncertain as it was."""


@dataclass(frozen=True, slots=True)
class JournalEvidence:
    """What the journal says of one call. `result`: what the tool returned, or would have; needed when CONFIRMED.

    A CONFIRMED result with `is_error` says that the tool ended without having acted. The result of any other
    disposition is a diagnosis for people: it never becomes the outcome. Limits as for an Observation.
    """

    disposition: Disposition
    result: ToolResult | None = None
    message: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.disposition, Disposition):
            raise TypeError("JournalEvidence: disposition is one of Disposition's members.")
        if self.disposition is Disposition.CONFIRMED and not isinstance(self.result, ToolResult):
            raise ValueError("JournalEvidence: CONFIRMED needs the ToolResult that the journal holds.")


class JournalReconciler(Reconciler):
    """Base of the reconciler of a tool with a journal: implement `read`. Give the tool an instance."""

    def read(self, inquiry: Inquiry) -> JournalEvidence | None:
        """What the journal holds of this operation; None if it can tell nothing, which proves nothing."""
        raise NotImplementedError(f"{type(self).__name__} must implement read(inquiry).")

    def lookup(self, inquiry: Inquiry) -> Observation:
        found = self.read(inquiry)
        if found is None:
            return Observation(Finding.NOT_FOUND, "The tool's journal has no evidence of this call.", journal=True)
        finding, result = _FINDINGS[found.disposition], None
        if found.disposition is Disposition.CONFIRMED and found.result is not None:
            finding = Finding.CONFIRMED_REFUSED if found.result.is_error else Finding.CONFIRMED_DONE
            result = found.result
        evidence = {**found.evidence, "disposition": found.disposition.value}
        return Observation(finding, found.message, result, evidence=evidence, journal=True)


_FINDINGS = {
    Disposition.CONFIRMED: Finding.CONFIRMED_DONE,
    Disposition.NOT_STARTED: Finding.ABSENT,
    Disposition.UNRESOLVED: Finding.NOT_FOUND,
}
