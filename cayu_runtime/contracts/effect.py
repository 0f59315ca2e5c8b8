"""Effect classes and the evidence that settles an effect (DESIGN §4, §7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class ToolEffect(StrEnum):
    """What running a tool twice can do to durable state outside this system.

    Classify the behaviour, not the transport or the price. When in doubt: EXTERNAL.
    """

    NONE = "none"
    """Running it again changes nothing that lasts."""
    IDEMPOTENT = "idempotent"
    """It may change state, and the downstream collapses repeats under one stable key."""
    EXTERNAL = "external"
    """Repeating it may act twice, or nobody can tell whether the first one acted."""


class EffectNotPerformed(Exception):
    """Raised by a tool that knows that it did not act: the effect is rejected and the model goes on.

    Any other exception of an EXTERNAL tool is ambiguous and stops the session as `outcome_unknown`.
    """


@dataclass(frozen=True, slots=True)
class Receipt:
    """Terminal evidence for one operation.

    `outcome` is `completed` or `rejected`; `source` says where it came from (`native`: the tool returned under its
    own dispatch; `late`: it returned after the dispatch was given up; `lookup`, `supplied`, `journal`:
    reconciliation). `digest` is the hex SHA-256 of the canonical result that was kept.
    """

    operation_id: str
    dispatch_id: str
    outcome: str
    source: str
    digest: str
    observed_at: str
    details: dict[str, Any] = field(default_factory=dict)

    def envelope(self) -> dict[str, Any]:
        return {
            "v": 1,
            "operation_id": self.operation_id,
            "dispatch_id": self.dispatch_id,
            "outcome": self.outcome,
            "source": self.source,
            "digest": self.digest,
            "observed_at": self.observed_at,
            "details": self.details,
        }
