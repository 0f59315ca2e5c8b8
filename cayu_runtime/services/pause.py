from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import Q

from .. import authority
from ..contracts import Actor
from ..core import clock, doorbell, ids, results
from ..core.transitions import transition
from ..errors import Conflict, InvalidRequest, LostRace, NotFound
from ..models import DispatchPause, Tenant, ToolCall
from .audit import audited, record

MAX_NAME = 100


def pause_dispatch(
    actor: Actor, *, reason: str, tenant: Tenant | None = None, tool: str = "", agent: str = ""
) -> DispatchPause:
    """Close dispatch for what is named, until resumed. T3 reads it, so no call begins after this but those whose
    intent is being committed at this moment; calls that have begun go on.

    InvalidRequest without a reason, or for what can be no name; Conflict when the same pause stands.
    """
    authority.require(actor, "pause_dispatch", tenant)
    said = results.clean_text(reason, 500)
    if not said:
        raise InvalidRequest("Say why dispatch is paused: those who wait will read it.")
    for what, name in (("tool", tool), ("agent", agent)):
        if len(name) > MAX_NAME or not name.isprintable():
            raise InvalidRequest(f"No {what} has such a name.")
    pause = DispatchPause(
        id=ids.new_id(),
        tenant=tenant,
        tool=tool,
        agent=agent,
        reason=said,
        created_by=actor.name,
        created_at=clock.now(),
    )
    try:
        with transaction.atomic() if tenant is None else audited(tenant.pk) as trail:
            pause.save(force_insert=True)
            if trail is not None:
                trail.record("dispatch.paused", actor, tool=tool, agent=agent, reason=said)
    except IntegrityError:
        raise Conflict("This is paused already. Resume it first, or leave it.") from None
    if tenant is None:
        record(None, "dispatch.paused", actor, tool=tool, agent=agent, reason=said)
    return pause


def resume_dispatch(actor: Actor, *, tenant: Tenant | None = None, tool: str = "", agent: str = "") -> int:
    """Lift exactly this pause, and wake what it held back. Returns how many calls were waiting for it."""
    authority.require(actor, "pause_dispatch", tenant)
    named = DispatchPause.objects.filter(tenant=tenant, tool=tool, agent=agent)
    with transaction.atomic() if tenant is None else audited(tenant.pk) as trail:
        lifted, _ = named.filter(quarantine=None).delete()
        if lifted and trail is not None:
            trail.record("dispatch.resumed", actor, tool=tool, agent=agent)
    if lifted and tenant is None:
        record(None, "dispatch.resumed", actor, tool=tool, agent=agent)
    if not lifted and named.exists():
        raise Conflict("This is no pause but a quarantine after a restored backup. `recovery release` opens it.")
    if not lifted:
        raise NotFound("There is no such pause. `dispatch status` lists those that stand.")
    return wake_held(tenant)


def wake_held(tenant: Tenant | None) -> int:
    """Wake what a pause of this tenant (None: of all) held back; another pause may hold it again."""
    held = Q(state__in=("prepared", "dispatched"), reason="dispatch_paused", session__state="pending")
    if tenant is not None:
        held &= Q(tenant=tenant)
    woken = 0
    for session in ToolCall.objects.filter(held).values_list("session_id", flat=True).distinct():
        try:
            with transition(session) as change:
                if change.session.state == "pending":
                    change.set(runnable_at=change.now)
                    change.wake()
                    woken += 1
        except LostRace:
            doorbell.ring(session)
    return woken
