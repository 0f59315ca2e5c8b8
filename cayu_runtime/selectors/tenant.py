from __future__ import annotations

from ..models import Tenant


def find_tenant(slug: str) -> Tenant | None:
    return Tenant.objects.filter(slug=slug).first()
