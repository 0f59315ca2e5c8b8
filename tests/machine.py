"""What the tests of the machine share: people, agents with a tool that counts, and the machine run in this process.

Fixture people: alice asks, bob decides. "T" in CASES is `Counter`, an effect tool that counts its executions.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from typing import Any

from cayu_runtime import (
    Actor,
    Agent,
    Call,
    Permit,
    PolicyDecision,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    Reply,
    Tool,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolResult,
    ToolSpec,
    Turn,
    registry,
)
from cayu_runtime.core import engine, lease
from cayu_runtime.core.lease import Lease
from cayu_runtime.models import Approval, EffectRecord, Event, Message, Session, Tenant, ToolCall
from cayu_runtime.services.approval import decide_approval
from cayu_runtime.services.session import start_session
from cayu_runtime.services.tenant import create_tenant

_numbers = itertools.count(1)


class Everybody:
    """An authority that permits everything: what a person may is tested elsewhere."""

    def may(self, actor: Actor, action: str, obj: Any) -> Permit:
        return Permit()


class Counter(Tool):
    """Counts its executions, and does in `run` what the test says."""

    def __init__(
        self,
        name: str = "move_money",
        effect: ToolEffect = ToolEffect.EXTERNAL,
        does: Callable[[ToolContext, dict[str, Any]], Any] | None = None,
        timeout: float = 10,
        version: str = "1",
    ) -> None:
        schema = {"type": "object", "properties": {"to": {"type": "string"}}, "additionalProperties": True}
        super().__init__(
            ToolSpec(name, "", schema, effect, version, timeout=timeout, verb=name.replace("_", " "), target="to")
        )
        self.seen: list[ToolContext] = []
        self.does = does or (lambda ctx, args: ToolResult("done", {"to": args.get("to", "")}))

    @property
    def count(self) -> int:
        return len(self.seen)

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        self.seen.append(ctx)
        return self.does(ctx, args)


class Gate(ToolPolicy):
    """Answers by tool name: `allow`, `deny` or `require_approval`, with an optional time limit in seconds."""

    def __init__(self, **answers: str | tuple[str, float]) -> None:
        self.answers = answers

    @property
    def identity(self) -> PolicyIdentity:
        return PolicyIdentity("gate", "1", {})

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        answer = self.answers.get(request.tool, "allow")
        decision, seconds = answer if isinstance(answer, tuple) else (answer, None)
        return PolicyResult(PolicyDecision(decision), "because the test says so", seconds)


def agent_of(*tools: Tool, policy: ToolPolicy | None = None, rounds: list[list[Call]] | None = None) -> Agent:
    """An agent that makes the calls of `rounds`, round by round (default: each tool once), then says what happened."""
    plan = rounds if rounds is not None else [[Call(tool.spec.name, {"to": "x"}) for tool in tools]]
    sizes = [sum(len(r) for r in plan[:n]) for n in range(len(plan) + 1)]

    def rule(turn: Turn) -> Reply:
        made = len(turn.outcomes)
        if made in sizes[:-1]:
            return Reply(calls=tuple(plan[sizes.index(made)]))
        return Reply(" ".join(f"{o.tool}: {o.status}." for o in turn.outcomes) or "Nothing to do.")

    agent = Agent(name=f"agent-{next(_numbers)}", model=rule, tools=tools, policy=policy)
    registry.register_for_test(agent)
    return agent


class Machine:
    """One tenant, its people, and the machine run step by step in this process."""

    def __init__(self) -> None:
        self.tenant: Tenant = create_tenant(f"t-{uuid.uuid4().hex[:12]}", "Test Ltd")
        self.alice = Actor("user:alice", "alice", self.tenant.id, "web", ("viewer",))
        self.bob = Actor("user:bob", "bob", self.tenant.id, "web", ("approver",))
        self.carol = Actor("user:carol", "carol", self.tenant.id, "web", ("approver",))

    def person(self, name: str) -> Actor:
        return Actor(f"user:{name}", name, self.tenant.id, "web", ("approver",))

    @staticmethod
    def copy(session: Session) -> Session:
        """The same row for another thread."""
        return Session.objects.get(pk=session.pk)

    def start(self, agent: Agent, text: str = "go", *, run: bool = True) -> Session:
        session = start_session(self.tenant, self.alice, agent=agent.name, text=text)
        if run:
            self.run(session)
        return session

    def claim(self, session: Session, worker: str = "worker-1") -> Lease:
        """Take the session without running it."""
        claimed = lease.claim(session.pk, worker)
        assert claimed is not None
        return claimed.lease

    def run(self, session: Session, worker: str = "worker-1") -> Session:
        engine.run_session(session.pk, worker)
        session.refresh_from_db()
        return session

    def approvals(self, session: Session) -> list[Approval]:
        return list(Approval.objects.filter(session=session, state="pending").order_by("call__position"))

    def decide(self, approval: Approval, verdict: str, actor: Actor | None = None, **changes: Any) -> Any:
        seen = {"version": approval.version, "digest": bytes(approval.intent_digest).hex(), "reason": "seen", **changes}
        return decide_approval(self.tenant, actor or self.bob, approval.pk, verdict=verdict, **seen)

    def calls(self, session: Session) -> list[ToolCall]:
        return list(ToolCall.objects.filter(session=session).order_by("round__position", "position"))

    def effect(self, session: Session) -> EffectRecord:
        return EffectRecord.objects.get(session=session)

    def events(self, session: Session) -> list[str]:
        return list(Event.objects.filter(session=session).order_by("seq").values_list("type", flat=True))

    def transcript(self, session: Session) -> list[Any]:
        return list(Message.objects.filter(session=session).order_by("position").values_list("body", flat=True))

    def last_text(self, session: Session) -> str:
        return "".join(part.get("content", "") for part in self.transcript(session)[-1]["parts"])
