from __future__ import annotations

from uuid import UUID

from django.db.models import Q

from ..errors import NotFound
from ..models import DispatchPause, Tenant


def pause_of(tenant: UUID, tool: str, agent: str) -> DispatchPause | None:
    """The pause that holds a call of this tool by this agent back, if there is one."""
    return DispatchPause.objects.filter(
        Q(tenant=tenant) | Q(tenant=None), Q(tool="") | Q(tool=tool), Q(agent="") | Q(agent=agent)
    ).first()


def pauses_in(tenant: Tenant) -> list[DispatchPause]:
    """What holds calls of this tenant back, for those who wait; the oldest first."""
    rows = DispatchPause.objects.filter(Q(tenant=tenant) | Q(tenant=None))
    return list(rows.order_by("created_at", "id"))


def find_pause(tenant: Tenant, pause_id: UUID) -> DispatchPause:
    """One pause of this tenant's own. NotFound for any other, and for one of the whole deployment."""
    row = DispatchPause.objects.filter(tenant=tenant, pk=pause_id).first()
    if row is None:
        raise NotFound("There is no such pause.")
    return row


def all_pauses() -> list[DispatchPause]:
    return list(DispatchPause.objects.select_related("tenant").order_by("created_at"))
