"""The demo's agents. `refunds` reads what a person types, asks for refunds, and says truthfully what became of them;
`drift` (drift.py) corrects what has drifted.
"""

from __future__ import annotations

import re
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

from . import drift

FAULTS = {
    "lose the answer": "drop_after_commit",
    "lose the request": "drop_before_commit",
    "fail before": "error_before",
    "fail after": "error_after",
}
REQUEST = re.compile(
    r"(?:please\s+)?refund\s+order\s+(?P<order>[\w./-]{1,60}?)[,:]?\s+(?:by\s+)?(?:[€$£]\s*)?(?P<amount>\d{1,9}(?:\.\d{1,2})?)"
    r"(?:\s*(?:€|\$|£|eur|usd|gbp))?(?:\s+because\s+(?P<reason>.+?))?[\s.]*",
    re.IGNORECASE,
)
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


def refunds(turn: Turn) -> Reply:
    """Ask for the refunds that the message names; once they ended, say for each what happened."""
    if turn.outcomes:
        return Reply(" ".join(_said(outcome) for outcome in turn.outcomes))
    text, fault = turn.message.strip(), ""
    for words, name in FAULTS.items():
        text, found = re.subn(rf"[\s,;]*(?:\band\s+)?{words}[\s.]*$", "", text, flags=re.IGNORECASE)
        if found:
            fault = name
    wanted = [REQUEST.fullmatch(part) for part in NEXT.split(text) if part.strip()]
    if not wanted or any(match is None or float(match["amount"]) == 0 for match in wanted):
        return Reply(HOW)
    return Reply(calls=tuple(_call(match, fault) for match in wanted if match is not None))


def _call(match: re.Match[str], fault: str) -> Call:
    reason = (match["reason"] or "no reason given").strip(" .")
    amount = _cents(match["amount"])
    arguments = {"order_id": match["order"], "amount": amount, "reason": reason, "simulate": fault}
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
    description="Refunds an order after a person approved it.",
    model=refunds,
    instructions="Refund orders as the person asks, and say truthfully what happened.",
    tools=(RefundOrder(),),
    policy=RequireApproval(
        ("refund_order",), reason="Money leaves the company: a second person must agree.", editable=True
    ),
    resources={"ledger": settings.CAYU_LEDGER_URL},
    example="refund order 1042 25.50 because damaged",
)

DRIFT = drift.DRIFT
