from __future__ import annotations

import re

from django.db import IntegrityError, transaction

from ..core import clock
from ..errors import Conflict, InvalidRequest
from ..models import Tenant

SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def create_tenant(slug: str, name: str) -> Tenant:
    """Create a tenant. InvalidRequest for an unusable slug, Conflict when it is taken."""
    if not SLUG.fullmatch(slug):
        raise InvalidRequest(f"{slug!r} can't be a tenant's slug: use a-z, 0-9, '-' and '_', at most 63 characters.")
    try:
        with transaction.atomic():
            return Tenant.objects.create(slug=slug, name=name.strip()[:200] or slug, created_at=clock.now())
    except IntegrityError:
        raise Conflict(f"There is a tenant {slug!r} already.") from None
