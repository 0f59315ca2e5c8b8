"""The reference lifecycle through services and engine: what a person, a worker and a second person do, in one process.

No queue runs: the engine is called where a wake-up would have called it. It is handed in by the command, because only
services, the worker and commands call the act-once path.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db.models import QuerySet

from ..contracts import Actor, Agent
from ..models import Approval, Session, Tenant
from ..services.approval import decide_approval
from ..services.session import start_session
from ..services.tenant import create_tenant
from .agents import REFERENCE

Engine = Callable[[uuid.UUID, str], object]


@dataclass(frozen=True, slots=True)
class People:
    """A tenant with one who asks and one who decides, and the engine that works for them."""

    engine: Engine
    tenant: Tenant
    requester: Actor
    approver: Actor


def people(engine: Engine) -> People:
    """A new tenant and its two people, made by the commands that an operator would use."""
    name = f"bench-{uuid.uuid4().hex[:12]}"
    tenant = create_tenant(name, "Benchmark")
    made = {}
    for role in ("viewer", "approver"):
        user = get_user_model().objects.create(username=f"{name}-{role}")
        call_command("grantrole", user.get_username(), name, role, verbosity=0, stdout=StringIO())
        made[role] = Actor(f"user:{user.pk}", user.get_username(), tenant.id, "web", (role,))
    return People(engine, tenant, made["viewer"], made["approver"])


def start(who: People, agent: Agent = REFERENCE, text: str = "") -> Session:
    text = text or f"change-{uuid.uuid4().hex[:16]}"
    return start_session(who.tenant, who.requester, agent=agent.name, text=text)


def wake(who: People, session: Session) -> None:
    who.engine(session.pk, "bench")


def approve(who: People, session: Session) -> None:
    """Read what waits in this session, and approve exactly that."""
    for approval in waiting_for(who).filter(session=session):
        approve_one(who, *approval)


def waiting_for(who: People) -> QuerySet[Approval, tuple[uuid.UUID, int, bytes]]:
    """What a decision must repeat: id, version and digest of what waits."""
    rows = Approval.objects.filter(tenant=who.tenant, state="pending")
    return rows.order_by("expires_at", "id").values_list("id", "version", "intent_digest")


def approve_one(who: People, approval: uuid.UUID, version: int, digest: bytes) -> None:
    decide_approval(who.tenant, who.approver, approval, verdict="approve", version=version, digest=digest.hex())


def run_lifecycle(who: People) -> Session:
    session = start(who)
    wake(who, session)
    approve(who, session)
    wake(who, session)
    return session
