from __future__ import annotations

import re
from collections.abc import Mapping

from django.db import IntegrityError, transaction

from .. import authority
from ..contracts import Actor
from ..core import clock, results
from ..core.limits import locked_tenant
from ..errors import Conflict, InvalidRequest, LimitReached
from ..models import Tenant
from ..selectors.session import count_open
from .audit import audited

SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
LIMITS = ("max_running_sessions", "max_pending_approvals", "max_steps")
MAX_LIMIT = 1_000_000


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


def admit_session(tenant: Tenant) -> None:
    """In the transition of a session that begins, or that has ended and is to run again: raises LimitReached if the
    tenant has as many that have not ended as it may have.

    `tenant` is as the door has read it: a limit that is set at this moment counts from the next request on.
    """
    if tenant.max_running_sessions is None:
        return
    most = locked_tenant(tenant.pk).max_running_sessions
    if most is None or count_open(tenant, most) < most:
        return
    have = "One session of this tenant has" if most == 1 else f"{most} sessions of this tenant have"
    raise LimitReached(
        f"{have} not ended, and it may have no more at once. Wait until one has ended, or give one up.",
        limit="running_sessions",
        most=most,
    )


def limit_tenant(actor: Actor, tenant: Tenant, limits: Mapping[str, int | None], *, reason: str) -> Tenant:
    """Set some of LIMITS; None lifts one, and one that is not named stays. Nothing that has begun is ended by it.

    It stands on the tenant's audit chain with the limits before and after, and the reason. InvalidRequest for no limit
    at all, a name that is none, a number below 1 or above MAX_LIMIT, or no reason; NotPermitted by the authority.
    """
    authority.require(actor, "limit_tenant", tenant)
    said = results.clean_text(reason, 500)
    if not said:
        raise InvalidRequest("Say why: a limit needs a reason, which stays on record.")
    if not limits or not set(limits) <= set(LIMITS):
        raise InvalidRequest(f"Name one limit or more of: {', '.join(LIMITS)}.")
    for name, most in limits.items():
        if most is not None and not 1 <= most <= MAX_LIMIT:
            raise InvalidRequest(
                f"A limit is from 1 to {MAX_LIMIT:,}, or none, so {name} can't be {most}. To stop a tenant, pause its "
                "dispatch."
            )
    with audited(tenant.pk) as trail:
        row = trail.tenant
        before = {name: getattr(row, name) for name in LIMITS}
        for name, most in limits.items():
            setattr(row, name, most)
        row.save(update_fields=list(limits))
        after = {name: getattr(row, name) for name in LIMITS}
        trail.record("tenant.limited", actor, before=before, after=after, reason=said)
    return row


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
