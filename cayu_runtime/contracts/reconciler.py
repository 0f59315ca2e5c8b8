"""Reconcilers and verifiers: what became of a call, asked where it really happened (DESIGN §4, §7).

A tool carries both as attributes. Neither ever sends the action again. Both run outside any transaction, under a
deadline; one that raises, or is late, has found nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from .secret import SecretUnavailable, reference_of
from .tool import MissingResource, ToolResult

LOOKUP_SECONDS = 10.0
MAX_EVIDENCE = 64 * 1024
MAX_RECEIPT = 96 * 1024
MAX_RESOURCE_VERSIONS = 32
MAX_MESSAGE = 1000


def _no_secrets(reference: Mapping[str, Any]) -> str:
    raise SecretUnavailable("No secret is provided here.")


class Finding(StrEnum):
    """What a reconciler found. Only the first three say something definite."""

    CONFIRMED_DONE = "confirmed_done"
    """It happened, and the evidence is bound to this very operation."""
    CONFIRMED_REFUSED = "confirmed_refused"
    """The downstream received it and says that it did not, and will not, do it."""
    ABSENT = "absent"
    """An authoritative no: up to this moment it did not happen. Never from a cache, a replica or a search index."""
    NOT_FOUND = "not_found"
    """Not seen, by a source that may lag behind. It proves nothing."""
    UNSUPPORTED = "unsupported"
    """This downstream can't be asked that."""
    CONFLICT = "conflict"
    """Something else stands under this operation, or the receipt does not fit it."""
    UNAVAILABLE = "unavailable"
    """No usable answer: unreachable, too slow, broken."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One dispatched operation that somebody asks about. `arguments` are those that were approved and sent.

    `idempotency_key` is the key it was sent under; keep it out of messages and evidence. `dispatch_deadline`: after it
    the runtime had given the call up. `seconds_left` bounds the answer; give it to HTTP clients as a timeout.
    `resources` are the agent's. A secret stands in `arguments` as the reference that was approved; `secret` reads it.
    """

    operation_id: str
    idempotency_key: str = field(repr=False)
    dispatch_id: str
    tenant: str
    session_id: str
    tool: str
    tool_version: str
    arguments: Mapping[str, Any] = field(repr=False)
    dispatched_at: datetime | None = None
    dispatch_deadline: datetime | None = None
    seconds_left: float = LOOKUP_SECONDS
    resources: Mapping[str, Any] = field(default_factory=dict, repr=False)
    read_secret: Callable[[Mapping[str, Any]], str] = field(default=_no_secrets, repr=False)

    def secret(self, reference: Mapping[str, Any]) -> str:
        """The value of `{"$secret": "name"}`, for this lookup alone: it is taken out of what the adapter answers.

        Raises SecretUnavailable when this process has none of that name; the answer is then UNAVAILABLE.
        """
        if reference_of(reference) is None:
            raise SecretUnavailable('A secret is named by a reference, like {"$secret": "name"}.')
        return self.read_secret(reference)

    def require(self, name: str) -> Any:
        """The resource called `name`; raises MissingResource with a sentence when the deployment has none."""
        if self.resources.get(name) is None:
            raise MissingResource(f"This lookup needs the resource {name!r}, which this deployment does not provide.")
        return self.resources[name]


@dataclass(frozen=True, slots=True)
class Observation:
    """A reconciler's answer. Raises ValueError or TypeError when it contradicts itself or passes a limit.

    `message` is a sentence for people (at most 1,000 characters). `result` is what the tool would have returned: needed
    when it was done, allowed when it was refused. `barred` goes with ABSENT alone: the downstream will never accept
    this operation's idempotency key again, so an earlier dispatch can't arrive late; a retry then needs a new key.
    `evidence` is what was seen, as JSON of at most 64 KiB; `resource_versions`, at most 32, name the states it was
    seen in (ETags, revisions). `journal`: it was read in the tool's own journal (contracts/journal.py), and its receipt
    says so.
    """

    finding: Finding
    message: str = ""
    result: ToolResult | None = None
    barred: bool = False
    evidence: Mapping[str, Any] = field(default_factory=dict)
    resource_versions: tuple[str, ...] = ()
    journal: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.finding, Finding):
            raise TypeError("Observation: finding is one of Finding's members.")
        if not isinstance(self.message, str) or len(self.message) > MAX_MESSAGE:
            raise ValueError(f"Observation: message is a text of at most {MAX_MESSAGE} characters. Shorten it.")
        if not isinstance(self.barred, bool) or (self.barred and self.finding is not Finding.ABSENT):
            raise ValueError("Observation: barred is True or False, and True only when the operation is ABSENT.")
        self._check_result()
        _check_evidence(self.evidence)
        versions = self.resource_versions
        if not isinstance(versions, tuple) or not all(isinstance(v, str) and len(v) <= 200 for v in versions):
            raise TypeError("Observation: resource_versions is a tuple of texts, each of at most 200 characters.")
        if len(versions) > MAX_RESOURCE_VERSIONS:
            raise ValueError(f"Observation: name at most {MAX_RESOURCE_VERSIONS} resource versions.")

    def _check_result(self) -> None:
        if self.result is not None and not isinstance(self.result, ToolResult):
            raise TypeError("Observation: result is a ToolResult.")
        if self.finding is Finding.CONFIRMED_DONE:
            if self.result is None or self.result.is_error is not False:
                raise ValueError("Observation: CONFIRMED_DONE needs the ToolResult that the tool would have returned.")
        elif self.result is not None and self.finding is not Finding.CONFIRMED_REFUSED:
            raise ValueError(f"Observation: {self.finding.name} says nothing definite, so it has no result.")


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Verification:
    """What a fresh read of the downstream state says, after the action. Limits as for an Observation."""

    verdict: Verdict
    message: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.verdict, Verdict):
            raise TypeError("Verification: verdict is one of Verdict's members.")
        if not isinstance(self.message, str) or len(self.message) > MAX_MESSAGE:
            raise ValueError(f"Verification: message is a text of at most {MAX_MESSAGE} characters. Shorten it.")
        _check_evidence(self.evidence)


class Reconciler:
    """Base of a tool's reconciler: implement `lookup`, `validate_receipt`, or both. Give the tool an instance.

    Raise `version` when the same answers mean something else. Neither method acts, retries or dispatches.
    """

    version: str = "1"

    @property
    def looks_up(self) -> bool:
        """Whether a person is offered a lookup."""
        return type(self).lookup is not Reconciler.lookup

    @property
    def takes_receipts(self) -> bool:
        """Whether a person is asked for a receipt."""
        return type(self).validate_receipt is not Reconciler.validate_receipt

    def lookup(self, inquiry: Inquiry) -> Observation:
        """Ask the downstream by the operation's own key. A timeout is UNAVAILABLE, never an absence."""
        return Observation(Finding.UNSUPPORTED, "This tool's downstream can't be looked up.")

    def validate_receipt(self, receipt: Mapping[str, Any], inquiry: Inquiry) -> Observation:
        """Judge a receipt that a person supplied (JSON of at most 96 KiB). That it is well formed proves nothing: it
        must be authentic and bound to this operation. One that is not is a CONFLICT.
        """
        return Observation(Finding.UNSUPPORTED, "This tool's reconciler accepts no receipts.")


class Verifier:
    """Base of a tool's verifier: reads what the action should have changed. The receipt itself is no evidence here."""

    version: str = "1"

    def verify(self, inquiry: Inquiry) -> Verification:
        raise NotImplementedError(f"{type(self).__name__} must implement verify(inquiry).")


def _check_evidence(evidence: Mapping[str, Any]) -> None:
    try:
        size = len(json.dumps(dict(evidence), allow_nan=False).encode("utf-8"))
    except (TypeError, ValueError, RecursionError):
        raise TypeError("Evidence is a JSON object. Write times and numbers that JSON lacks as texts.") from None
    if size > MAX_EVIDENCE:
        raise ValueError(f"Evidence is {size} bytes; keep at most {MAX_EVIDENCE}, the part that proves the finding.")
