from __future__ import annotations

import re

from django.db import IntegrityError, transaction

from .. import authority
from ..contracts import Actor
from ..core import clock
from ..errors import Conflict, InvalidRequest
from ..models import Tenant
from .audit import audited

SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def create_tenant(slug: str, name: str, *, step_up: bool = False) -> Tenant:
    """Create a tenant. InvalidRequest for an unusable slug, Conflict when it is taken."""
    if not SLUG.fullmatch(slug):
        raise InvalidRequest(f"{slug!r} can't be a tenant's slug: use a-z, 0-9, '-' and '_', at most 63 characters.")
    try:
        with transaction.atomic():
            return Tenant.objects.create(
                slug=slug, name=name.strip()[:200] or slug, created_at=clock.now(), step_up=step_up
            )
    except IntegrityError:
        raise Conflict(f"There is a tenant {slug!r} already.") from None


def set_step_up(tenant: Tenant, wanted: bool, actor: Actor | None = None) -> bool:
    """Whether deciding about an EXTERNAL effect of this tenant takes a fresh sign-in. True when that is new.

    It counts from the next decision on. `actor` is who changes it; None is an operator at a shell. It goes on the
    tenant's audit chain. NotPermitted by the authority.
    """
    if actor is not None:
        authority.require(actor, "manage_people", tenant)
    with audited(tenant.pk) as trail:
        if trail.tenant.step_up == wanted:
            return False
        trail.tenant.step_up = wanted
        trail.tenant.save(update_fields=["step_up"])
        trail.record("tenant.step_up_changed", actor, step_up=wanted)
    tenant.step_up = wanted
    return True
