"""The demo's refund made of the generic HTTP tool and reconciler: what docs/http-tool.md says, said of the ledger."""

from __future__ import annotations

from cayu_project.demo.agents import RefundOrder
from cayu_runtime.reconcilers.http import Bar, HttpReconciler, Match
from cayu_runtime.tools.http import Endpoint, HttpTool, Record, When

FIELDS = ("refund_id", "order_id", "amount", "reason", "booked_at")
REFUSALS = (400, 409, 410)


def tool_for(ledger: str) -> HttpTool:
    """At the ledger of this address."""
    return HttpTool(
        RefundOrder.spec,
        Endpoint(
            f"{ledger}/refunds",
            body=("order_id", "amount", "reason"),
            headers={"X-Ledger-Fault": "{simulate}"},
        ),
        done=(When(200), When(201)),
        refused=tuple(When(status) for status in REFUSALS),
        record=Record(FIELDS, says="Booked as {refund_id}."),
        reconciler=reconciler_for(ledger),
    )


def reconciler_for(ledger: str) -> HttpReconciler:
    return HttpReconciler(
        Endpoint(f"{ledger}/refunds?key={{idempotency_key}}", "GET"),
        done=(When(200, "found", True),),
        absent=(When(404, "barred", False),),
        barred=(When(404, "barred", True),),
        authoritative=True,
        bar=Bar(Endpoint(f"{ledger}/bars", body=("idempotency_key",), key_header=""), (When(200, "barred", True),)),
        match=(
            Match("idempotency_key", "idempotency_key"),
            Match("order_id", "order_id"),
            Match("reason", "reason"),
            Match("amount", "amount", as_number=True),
        ),
        record=Record(FIELDS, path="refund", says="Booked as {refund_id}."),
        receipt=FIELDS,
    )
