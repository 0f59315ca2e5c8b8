from __future__ import annotations

import uuid

from django.db.models import Prefetch

from ..models import Approval, Tenant, ToolCall


def find_call(tenant: Tenant, call_id: uuid.UUID) -> ToolCall | None:
    """One call with its session, round, effect, proposal and approvals (with who decided them)."""
    approvals = Prefetch("approvals", Approval.objects.select_related("decided_by").order_by("version", "created_at"))
    rows = ToolCall.objects.select_related("session", "round", "effect", "proposal").prefetch_related(approvals)
    return rows.filter(tenant=tenant, pk=call_id).first()
