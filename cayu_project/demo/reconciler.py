"""What became of a refund, asked at the ledger by the operation's own key."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import httpx

from cayu_runtime import Finding, Inquiry, Observation, Reconciler, ToolResult

MAX_ANSWER = 64 * 1024
FIELDS = ("refund_id", "order_id", "amount", "reason", "booked_at")
"""What stands in evidence and receipts: the ledger's record without the key."""


class LedgerReconciler(Reconciler):
    """Never books. The ledger answers from the one file that it books in, so its "no" is authoritative. That "no" is
    then made to last: the key is barred, so that a request which is still on its way books nothing. What can't be read
    in time is unavailable.
    """

    def lookup(self, inquiry: Inquiry) -> Observation:
        found = self._read(inquiry)
        return self._bar(inquiry) if found.finding is Finding.ABSENT and not found.barred else found

    def _read(self, inquiry: Inquiry) -> Observation:
        try:
            status, answer = _ask(inquiry)
        except (httpx.HTTPError, ValueError, TimeoutError, RecursionError) as error:
            return Observation(
                Finding.UNAVAILABLE, "The ledger gave no usable answer.", evidence={"error": type(error).__name__}
            )
        if status == 200 and answer.get("found") is True and isinstance(answer.get("refund"), dict):
            return _judged(answer["refund"], inquiry)
        if status == 404 and answer.get("found") is False and isinstance(answer.get("barred"), bool):
            return _absent(barred=answer["barred"])
        return Observation(
            Finding.UNAVAILABLE, f"The ledger answered {status} in an unknown form.", evidence={"status": status}
        )

    def _bar(self, inquiry: Inquiry) -> Observation:
        """Make sure that nothing is booked under this key any more; a refund that came in between is found."""
        try:
            status, answer = _ask(inquiry, bar=True)
        except (httpx.HTTPError, ValueError, TimeoutError, RecursionError) as error:
            return Observation(
                Finding.UNAVAILABLE, "The ledger could not bar the key.", evidence={"error": type(error).__name__}
            )
        if status == 200 and answer.get("barred") is True:
            return _absent(barred=True)
        if status == 409 and isinstance(answer.get("refund"), dict):
            return _judged(answer["refund"], inquiry)
        return Observation(
            Finding.UNAVAILABLE, f"The ledger answered {status} in an unknown form.", evidence={"status": status}
        )

    def validate_receipt(self, receipt: Mapping[str, Any], inquiry: Inquiry) -> Observation:
        """A receipt is the ledger's record of a refund. It is compared with the ledger's own, field by field."""
        found = self._read(inquiry)
        if found.finding is Finding.ABSENT:
            return Observation(Finding.CONFLICT, "The ledger has no such refund.", evidence=found.evidence)
        if found.finding is not Finding.CONFIRMED_DONE:
            return found
        record = found.evidence["refund"]
        different = sorted(name for name in FIELDS if receipt.get(name) != record[name])
        if different:
            text = f"The receipt differs from the ledger's record: {', '.join(different)}."
            return Observation(Finding.CONFLICT, text, evidence={"different": different})
        return found


def _absent(*, barred: bool) -> Observation:
    message = f"The ledger has booked nothing for this operation{', and never will' if barred else ' so far'}."
    return Observation(Finding.ABSENT, message, barred=barred, evidence={"booked": False, "barred": barred})


def _judged(refund: dict[str, Any], inquiry: Inquiry) -> Observation:
    """A refund that stands under our key is ours if it is what was asked for."""
    record = {name: value for name in FIELDS if isinstance(value := refund.get(name), str)}
    if len(record) < len(FIELDS):
        return Observation(Finding.UNAVAILABLE, "The ledger's record can't be read.")
    asked = {name: inquiry.arguments.get(name) for name in ("order_id", "reason")}
    ours = refund.get("idempotency_key") == inquiry.idempotency_key and all(
        record[name] == value for name, value in asked.items()
    )
    if not ours or _amount(record["amount"]) != _amount(inquiry.arguments.get("amount")):
        return Observation(
            Finding.CONFLICT, "Another refund stands under this operation's key.", evidence={"refund": record}
        )
    result = ToolResult(content=f"Booked as {record['refund_id']}.", structured={**record, "status": "booked"})
    message = f"The ledger booked it as {record['refund_id'][:60]}."
    return Observation(Finding.CONFIRMED_DONE, message, result, evidence={"refund": record})


def _amount(text: Any) -> Decimal | None:
    try:
        return Decimal(text)
    except (InvalidOperation, TypeError, ValueError):
        return None


def _ask(inquiry: Inquiry, *, bar: bool = False) -> tuple[int, dict[str, Any]]:
    """One request, no retry. Raises TimeoutError or ValueError when the answer is too slow, too long, or no object."""
    until = time.monotonic() + inquiry.seconds_left
    ledger, key = inquiry.require("ledger"), inquiry.idempotency_key
    with httpx.stream(
        "POST" if bar else "GET",
        f"{ledger}/bars" if bar else f"{ledger}/refunds",
        params=None if bar else {"key": key},
        json={"idempotency_key": key} if bar else None,
        timeout=max(inquiry.seconds_left, 0.001),
        trust_env=False,
    ) as answer:
        body = b""
        for chunk in answer.iter_bytes():
            body += chunk
            if len(body) > MAX_ANSWER:
                raise ValueError("The answer is too long.")
            if time.monotonic() > until:
                raise TimeoutError("The answer came too slowly.")
    parsed = json.loads(body)
    if not isinstance(parsed, dict):
        raise ValueError("The answer is no object.")
    return answer.status_code, parsed
