"""The reconciler of an HTTP API, by configuration: it looks an operation up, and never sends it.

    HttpReconciler(
        Endpoint("https://api.example.com/v1/refunds?key={idempotency_key}", "GET"),
        done=(When(200, "status", "booked"),),
        refused=(When(200, "status", "declined"),),
        absent=(When(404, "error", "no_such_refund"),),
        authoritative=False,                      # True: the API itself says no, from where it writes
        match=(Match("order", "order"), Match("amount", "amount", as_number=True)),
        record=Record(("id", "order", "amount")),
        receipt=("id", "amount"),
    )

An answer that no rule recognises, or two that disagree, is no usable answer; so is a redirect, a timeout, a lost
connection, a body over 64 KiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import httpx

from ..contracts import Finding, Inquiry, Observation, Reconciler, SecretUnavailable
from ..tools.http import (
    CREDENTIAL,
    KEY,
    OPERATION,
    Answer,
    AnswerUnknown,
    Endpoint,
    NotSent,
    Record,
    When,
    at,
    exchange,
)

FAILURES = (httpx.HTTPError, AnswerUnknown, NotSent, TimeoutError)


@dataclass(frozen=True, slots=True)
class Match:
    """A field of the record must have the value of an argument, of `idempotency_key` or of `operation_id`.

    `as_number`: "25.50", "25.5" and 25.5 are the same.
    """

    field: str
    argument: str
    as_number: bool = False

    def fits(self, record: Any, values: Mapping[str, Any]) -> bool:
        found, wanted = at(record, self.field), values.get(self.argument)
        if self.as_number:
            number = _number(found)
            return number is not None and number == _number(wanted)
        return type(found) is type(wanted) and bool(found == wanted)


@dataclass(frozen=True, slots=True)
class Bar:
    """A request after which the API never accepts the operation's key again; `confirmed` recognises that it said so.

    If the operation exists, it must change nothing.
    """

    endpoint: Endpoint
    confirmed: tuple[When, ...]


class HttpReconciler(Reconciler):
    """Configured as the first part of this module shows. ValueError for what could mistake another operation for ours.

    `absent` says that nothing stands under the operation. It counts as a proof only where `authoritative`: the API
    answers from where it writes, not from a cache, a replica or an index; and even then not before the dispatch can no
    longer arrive. `barred` recognises a lookup's answer that says that it never will; `bar`, sent after an absence that
    is authoritative, makes it so.

    `receipt` names fields of `record`: a person's receipt must have the same values as the API's own record.
    """

    def __init__(
        self,
        lookup: Endpoint,
        *,
        done: tuple[When, ...],
        refused: tuple[When, ...] = (),
        absent: tuple[When, ...] = (),
        authoritative: bool = False,
        barred: tuple[When, ...] = (),
        bar: Bar | None = None,
        match: tuple[Match, ...] = (),
        record: Record | None = None,
        receipt: tuple[str, ...] = (),
    ) -> None:
        self.endpoint, self.bar = lookup, bar
        self.done, self.refused, self.absent, self.barred = done, refused, absent, barred
        self.authoritative, self.match = authoritative, match
        self.record, self.receipt = record or Record(), receipt
        for endpoint in (lookup, *([bar.endpoint] if bar else [])):
            if endpoint.key_header and not endpoint.reads:
                raise ValueError(
                    f"HttpReconciler: set key_header=\"\" for {endpoint.url}: a {endpoint.method} with the operation's "
                    "idempotency header could be taken for the action itself."
                )
        bound = lookup.names | {rule.argument for rule in match}
        if not bound & {KEY, OPERATION}:
            raise ValueError(
                "HttpReconciler: look up, or match, by idempotency_key or operation_id: "
                "else another operation's record would pass for this one's."
            )
        if not done:
            raise ValueError("HttpReconciler: say which answers mean that it was done.")
        if bar is not None and not (authoritative and bar.confirmed and bar.endpoint.names & {KEY, OPERATION}):
            raise ValueError(
                "HttpReconciler: a bar follows an authoritative absence, names the key or the operation, and says "
                "which answer confirms it."
            )
        unknown = sorted(set(receipt) - set(self.record.keep))
        if unknown:
            raise ValueError(f"HttpReconciler: receipt names {unknown[0]!r}, which record does not keep.")

    @property
    def takes_receipts(self) -> bool:
        return bool(self.receipt)

    def lookup(self, inquiry: Inquiry) -> Observation:
        found = self._read(inquiry)
        if self.bar is None or found.finding is not Finding.ABSENT or found.barred:
            return found
        return self._barred(self.bar, inquiry)

    def validate_receipt(self, receipt: Mapping[str, Any], inquiry: Inquiry) -> Observation:
        """A receipt proves nothing by itself: it is compared with the API's own record, read now."""
        if not self.receipt:
            return super().validate_receipt(receipt, inquiry)
        found = self._read(inquiry)
        if found.finding in (Finding.ABSENT, Finding.NOT_FOUND):
            return Observation(Finding.CONFLICT, "The API has no such record.", evidence=found.evidence)
        if found.finding is not Finding.CONFIRMED_DONE:
            return found
        record = found.evidence["record"]
        different = sorted(
            name for name in self.receipt if type(at(receipt, name)) is not type(record.get(name))
            or at(receipt, name) != record.get(name)
        )  # fmt: skip
        if different:
            text = f"The receipt differs from the API's record: {', '.join(different)}."[:1000]
            return Observation(Finding.CONFLICT, text, evidence={"different": different})
        return found

    def _read(self, inquiry: Inquiry) -> Observation:
        try:
            answer = self._ask(self.endpoint, inquiry)
        except FAILURES as error:
            return _unusable("The API gave no usable answer.", error=type(error).__name__)
        except SecretUnavailable as error:
            return _unusable(str(error)[:1000])
        rules = {
            Finding.CONFIRMED_DONE: self.done,
            Finding.CONFIRMED_REFUSED: self.refused,
            Finding.ABSENT: (*self.absent, *self.barred),
        }
        findings = [finding for finding, known in rules.items() if any(rule.fits(answer) for rule in known)]
        if len(findings) != 1:
            return _unusable(f"The API answered {answer.status} in an unknown form.", status=answer.status)
        if findings[0] is Finding.ABSENT:
            return self._absent(answer)
        return self._judged(findings[0], answer, inquiry)

    def _absent(self, answer: Answer) -> Observation:
        if any(rule.fits(answer) for rule in self.barred):
            return _never(answer)
        finding = Finding.ABSENT if self.authoritative else Finding.NOT_FOUND
        text = "The API has nothing under this operation so far."
        return Observation(finding, text, evidence={"status": answer.status})

    def _barred(self, bar: Bar, inquiry: Inquiry) -> Observation:
        """Make the absence last. Where the API confirms no bar, something may have come in between: look again."""
        try:
            answer = self._ask(bar.endpoint, inquiry)
        except FAILURES as error:
            return _unusable("The API could not bar the operation.", error=type(error).__name__)
        if any(rule.fits(answer) for rule in bar.confirmed):
            return _never(answer)
        again = self._read(inquiry)
        if again.finding is Finding.ABSENT and not again.barred:
            return _unusable("The API could not bar the operation.", status=answer.status)
        return again

    def _judged(self, finding: Finding, answer: Answer, inquiry: Inquiry) -> Observation:
        """The record that stands there is ours if it is what was asked for."""
        body = at(answer.body, self.record.path) if self.record.path else answer.body
        kept = self.record.of(answer.body)
        if kept is None:
            return _unusable("The API's record can't be read.", status=answer.status)
        kept = {name: value for name, value in kept.items() if value != inquiry.idempotency_key}
        evidence = {"status": answer.status, "record": kept}
        values = _values(inquiry)
        if not all(rule.fits(body, values) for rule in self.match):
            text = "Another record stands under this operation."
            return Observation(Finding.CONFLICT, text, evidence=evidence)
        result = self.record.result(kept) if finding is Finding.CONFIRMED_DONE else None
        text = "The API has it." if result is not None else "The API says that it did not do it."
        return Observation(finding, text, result, evidence=evidence)

    def _ask(self, endpoint: Endpoint, inquiry: Inquiry) -> Answer:
        credential = inquiry.secret(endpoint.credential.reference) if endpoint.credential is not None else ""
        return exchange(endpoint, _values(inquiry), credential, inquiry.seconds_left)


def _values(inquiry: Inquiry) -> dict[str, Any]:
    arguments = {name: value for name, value in inquiry.arguments.items() if name != CREDENTIAL}
    return {**arguments, KEY: inquiry.idempotency_key, OPERATION: inquiry.operation_id}


def _never(answer: Answer) -> Observation:
    text = "The API has nothing under this operation, and never will."
    return Observation(Finding.ABSENT, text, barred=True, evidence={"status": answer.status})


def _unusable(message: str, **evidence: Any) -> Observation:
    return Observation(Finding.UNAVAILABLE, message, evidence=evidence)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
