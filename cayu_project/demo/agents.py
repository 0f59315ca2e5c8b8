"""The demo's agents. `refunds` reads what a person types, asks for what it was not told, proposes the refunds, and says
truthfully what became of them; `drift` (drift.py) corrects what has drifted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
from django.conf import settings

from cayu_project.demo.reconciler import LedgerReconciler
from cayu_runtime import (
    Agent,
    Call,
    EffectNotPerformed,
    Outcome,
    Reply,
    Tool,
    ToolContext,
    ToolEffect,
    ToolResult,
    ToolSpec,
    Turn,
)
from cayu_runtime.policies import RequireApproval
from cayu_runtime.tools.ask_user import AskUser

from . import drift

FAULTS = {
    "lose the answer": "drop_after_commit",
    "lose the request": "drop_before_commit",
    "fail before": "error_before",
    "fail after": "error_after",
}
ORDER = r"(?P<order>[\w./-]{1,60}?)"
AMOUNT = r"(?:[€$£]\s*)?(?P<amount>\d{1,9}(?:\.\d{1,2})?)(?:\s*(?:€|\$|£|eur|usd|gbp))?"
REASON = r"(?:\s+because\s+(?P<reason>.+?))?[\s.]*"
REQUEST = re.compile(rf"(?:please\s+)?refund\s+order\s+{ORDER}[,:]?\s+(?:by\s+)?{AMOUNT}{REASON}", re.IGNORECASE)
UNFINISHED = re.compile(
    rf"(?:please\s+)?refund(?:\s+(?:an\s+|the\s+)?order(?:\s+{ORDER})?|\s+{AMOUNT})?{REASON}", re.IGNORECASE
)
ANSWER = {
    "order": re.compile(rf"(?:order\s+)?{ORDER}[\s.]*", re.IGNORECASE),
    "amount": re.compile(rf"{AMOUNT}[\s.]*", re.IGNORECASE),
}
NEXT = re.compile(r"\s*(?:;|\n|,?\s+and\s+(?=(?:please\s+)?refund\s+order\b))\s*", re.IGNORECASE)
HOW = 'Tell me which order and how much, like: "refund order 1042 25.50 because damaged".'


class RefundOrder(Tool):
    """Books one refund at the ledger, under the operation's own key and without any retry of the transport."""

    spec = ToolSpec(
        name="refund_order",
        description="Refund an amount of one order to the customer.",
        input_schema={
            "type": "object",
            "properties": {
                "order_id": {"type": "string", "minLength": 1, "maxLength": 60},
                "amount": {"type": "string", "pattern": r"^[0-9]{1,9}\.[0-9]{2}$"},
                "reason": {"type": "string", "maxLength": 500},
                "simulate": {"type": "string", "enum": ["", *FAULTS.values()], "default": ""},
            },
            "required": ["order_id", "amount", "reason"],
            "additionalProperties": False,
        },
        effect=ToolEffect.EXTERNAL,
        timeout=30,
        verb="Refund order",
        target="order_id",
        identified_by=("order_id", "amount"),
    )
    reconciler = LedgerReconciler()

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        headers = {"Idempotency-Key": ctx.idempotency_key}
        if args["simulate"]:
            headers["X-Ledger-Fault"] = args["simulate"]
        body = {name: args[name] for name in ("order_id", "amount", "reason")}
        try:
            answer = httpx.post(
                f"{ctx.require('ledger')}/refunds",
                json=body,
                headers=headers,
                timeout=ctx.seconds_left,
                trust_env=False,
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise EffectNotPerformed("The ledger could not be reached; the refund was never sent.") from error
        if answer.status_code in (200, 201):
            refund = answer.json()
            return ToolResult(content=f"Booked as {refund['refund_id']}.", structured=refund)
        if 400 <= answer.status_code < 500:
            raise EffectNotPerformed(f"The ledger refused ({answer.status_code}): {answer.text[:500]}")
        raise RuntimeError(f"The ledger answered {answer.status_code}; whether it booked is unknown.")


@dataclass(frozen=True, slots=True)
class Wish:
    """One refund as far as the person told it; empty is what they did not say."""

    order: str
    amount: str
    reason: str


def refunds(turn: Turn) -> Reply:
    """Ask the person for what is missing, then for the refunds; once they ended, say for each what happened."""
    done = [outcome for outcome in turn.outcomes if outcome.tool == RefundOrder.spec.name]
    if done:
        return Reply(" ".join(_said(outcome) for outcome in done))
    text, fault = _without_fault(turn.message.strip())
    wishes = [_wish(part) for part in NEXT.split(text) if part.strip()]
    told = [wish for wish in wishes if wish is not None]
    if not told or len(told) < len(wishes):
        return Reply(HOW)
    missing = list(_missing(told))
    if missing and not turn.outcomes:
        return Reply(calls=tuple(Call("ask_user", {"question": question}) for _, _, question in missing))
    for (place, name, _), outcome in zip(missing, turn.outcomes, strict=True):
        found = ANSWER[name].fullmatch(outcome.content.strip())
        if outcome.status != "completed" or found is None or not _is_some(name, found[name]):
            return Reply(_gave_up(name, outcome))
        told[place] = replace(told[place], **{name: found[name]})
    return Reply(calls=tuple(_call(wish, fault) for wish in told))


def _without_fault(text: str) -> tuple[str, str]:
    """The message without the accident that it asks for, and that accident's name at the ledger."""
    fault = ""
    for words, name in FAULTS.items():
        text, found = re.subn(rf"[\s,;]*(?:\band\s+)?{words}[\s.]*$", "", text, flags=re.IGNORECASE)
        if found:
            fault = name
    return text, fault


def _wish(part: str) -> Wish | None:
    """What one part of the message asks for; None if it can't be read, or is for nothing."""
    match = REQUEST.fullmatch(part) or UNFINISHED.fullmatch(part)
    if match is None or (match["amount"] and not _is_some("amount", match["amount"])):
        return None
    return Wish(match["order"] or "", match["amount"] or "", (match["reason"] or "no reason given").strip(" ."))


def _is_some(name: str, value: str) -> bool:
    return name != "amount" or float(value) > 0


def _missing(wishes: list[Wish]) -> Iterator[tuple[int, str, str]]:
    """What is to be asked: for which wish, which field of it, in which words."""
    for place, wish in enumerate(wishes):
        if not wish.order:
            yield place, "order", f"Which order is to be refunded{f' by {wish.amount}' if wish.amount else ''}?"
        if not wish.amount:
            yield place, "amount", f"How much is to be refunded{f' for order {wish.order}' if wish.order else ''}?"


def _gave_up(name: str, outcome: Outcome) -> str:
    if outcome.status != "completed":
        return f"No refund was made: I was not told the {name}. {outcome.content}"
    return f"No refund was made: I can't read “{outcome.content}” as an {name}. {HOW}"


def _call(wish: Wish, fault: str) -> Call:
    arguments = {"order_id": wish.order, "amount": _cents(wish.amount), "reason": wish.reason, "simulate": fault}
    return Call("refund_order", arguments)


def _cents(amount: str) -> str:
    whole, _, part = amount.partition(".")
    return f"{whole}.{part:0<2}"


def _said(outcome: Outcome) -> str:
    if outcome.status == "completed":
        refund = outcome.details.get("structured") or {}
        return f"Order {refund.get('order_id')}: {refund.get('amount')} was refunded ({refund.get('refund_id')})."
    reason = outcome.content.strip() or outcome.status
    return f"No refund was made ({outcome.status}). {reason}"


REFUNDS = Agent(
    name="refunds",
    description=(
        "Refunds an order after a person approved it. End with “and lose the answer” or “and lose the request” to see "
        "what becomes of a refund that nobody knows the outcome of."
    ),
    model=refunds,
    instructions="Refund orders as the person asks, and say truthfully what happened.",
    tools=(RefundOrder(), AskUser()),
    policy=RequireApproval(
        ("refund_order",), reason="Money leaves the company: a second person must agree.", editable=True
    ),
    resources={"ledger": settings.CAYU_LEDGER_URL},
    example="refund order 1042 25.50 because damaged",
)

DRIFT = drift.DRIFT
