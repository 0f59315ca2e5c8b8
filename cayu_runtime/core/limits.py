"""What a tenant may have at once (docs/limits.md). A tenant without limits pays no lock and no statement for them.

Sessions begin, and requests to people too, under the lock of the tenant's row, so that many at one moment can't pass a
limit together. A session's own lock is always taken before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ..contracts import Agent
from ..models import Approval, Tenant, ToolCall
from .statements import fetch, prepared
from .transitions import Change


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """The limits of a tenant that concern the steps of its sessions. None: there is none."""

    steps: int | None = None
    pending_approvals: int | None = None


NO_LIMITS = TenantLimits()


def without_room(change: Change, calls: Sequence[ToolCall], most: int | None) -> tuple[Sequence[ToolCall], int]:
    """T1: of these calls, those that may not ask a person, because the agent has as many requests waiting as it may
    have; and that number.
    """
    asking = [call for call in calls if call.state == "awaiting_approval"]
    most = locked_tenant(change.session.tenant_id).max_pending_approvals if asking and most is not None else None
    if most is None:
        return (), 0
    return asking[max(0, most - _waiting(change, most)) :], most


def _waiting(change: Change, most: int) -> int:
    """How many requests of the session's agent wait, counted up to `most`. By the index of the queue, of which the
    limit itself keeps the tenant's part short.
    """
    sql = f"""
        SELECT count(*) FROM (
            SELECT 1 FROM {Approval._meta.db_table} WHERE tenant_id = %s AND state = 'pending' AND agent = %s LIMIT %s
        ) w
    """  # noqa: S608  names come from the models
    tenant = prepared(Approval, "tenant", change.session.tenant_id)
    count: int = fetch(sql, [tenant, change.session.agent, most])[0][0]
    return count


def no_room(agent: str, most: int) -> str:
    """What a call is told that may not ask."""
    wait = f"One request of agent {agent!r} waits" if most == 1 else f"{most} requests of agent {agent!r} wait"
    return (
        f"{wait} for people already, and this tenant allows no more. Nobody was asked and nothing was done. Ask again "
        "later, when people have decided; for now, say what is left to do."
    )


def step_limit_reached(agent: Agent, tenant: TenantLimits, steps: int) -> str | None:
    """A sentence that says whose limit it is, when one more model step passes the stricter of the two."""
    if tenant.steps is not None and tenant.steps < agent.limits.max_steps:
        most, whose = tenant.steps, "this tenant"
    else:
        most, whose = agent.limits.max_steps, f"agent {agent.name!r}"
    return f"{steps} model steps were taken; the limit of {whose} is {most}." if steps >= most else None


def call_limit_reached(agent: Agent, calls: int) -> str | None:
    """A sentence when one step has more calls than the agent may make in one."""
    most = agent.limits.max_calls_per_round
    return f"{calls} calls in one step; the limit of agent {agent.name!r} is {most}." if calls > most else None


def locked_tenant(tenant: UUID) -> Tenant:
    """The tenant's row, locked to the end of this transaction."""
    return Tenant.objects.select_for_update(no_key=True).get(pk=tenant)
