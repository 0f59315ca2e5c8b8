"""What every harness has: a tenant of its own, people, and a clock that the test moves."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ..contracts import Actor, Permit, Refusal
from ..core import clock
from ..models import Approval, Tenant
from ..services.tenant import create_tenant
from ..worker.sweep import expire_due
from .run import Run, Waiting


class Colleagues:
    """An authority for tests: everybody may do everything in their tenant, but four eyes hold."""

    def may(self, actor: Actor, action: str, obj: Any) -> Permit | Refusal:
        if action == "decide" and isinstance(obj, Approval) and obj.four_eyes and obj.requester == actor.subject:
            return Refusal("own_request", "You asked for this yourself, so somebody else must decide it.")
        return Permit()


class Scene(ABC):
    """Where runs happen. `tenant` is made anew unless one is given; `offset` is how far its clock was moved."""

    def __init__(self, tenant: Tenant | None) -> None:
        self.tenant = tenant or create_tenant(f"t-{uuid.uuid4().hex[:12]}", "Under test")
        self.offset = timedelta(0)

    @abstractmethod
    def start(self, text: str, *, by: str | Actor = "alice") -> Run:
        """Start a session with a person's message. It runs with the run's `go`."""

    @abstractmethod
    def drive(self, run: Run) -> None:
        """Do what a worker does, until there is nothing to do for one."""

    @abstractmethod
    def decide(self, run: Run, waiting: Waiting, verdict: str, by: str | Actor, reason: str = "") -> None:
        """Record a person's answer through the service, on the version and digest that `waiting` was listed with."""

    @abstractmethod
    def answer(self, run: Run, waiting: Waiting, text: str, by: str | Actor) -> None:
        """Record a person's answer to a question through the service, on the digest that it was listed with."""

    def person(self, name: str, *roles: str) -> Actor:
        """A person of this tenant, signed in at the web."""
        return Actor(f"user:{name}", name, self.tenant.id, "web", roles)

    def advance(self, by: timedelta) -> None:
        """Move the clock on: leases and deadlines are judged by it. Nobody waits."""
        self.offset += by

    def expire(self) -> int:
        """Expire the approvals, questions and proposals whose time is over, as the sweep does. Returns how many."""
        with self.its_clock():
            return expire_due()

    @contextmanager
    def its_clock(self) -> Iterator[None]:
        with clock.shifted(self.offset):
            yield

    def actor(self, by: str | Actor) -> Actor:
        return by if isinstance(by, Actor) else self.person(by)


def refuse_other(waiting: Waiting, kind: str = "approval") -> None:
    if waiting.kind != kind:
        waits = {"approval": "an approval", "question": "an answer to a question"}
        raise AssertionError(f"{waiting.tool} waits for {waits[waiting.kind]}, not for {waits[kind]}.")
