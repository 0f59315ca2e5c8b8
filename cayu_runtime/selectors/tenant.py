from __future__ import annotations

from ..models import Tenant


def find_tenant(slug: str) -> Tenant | None:
    return Tenant.objects.filter(slug=slug).first()


def all_tenants() -> list[Tenant]:
    """Every tenant of the deployment, by slug."""
    return list(Tenant.objects.order_by("slug"))
