"""An office to click through: people with roles in two tenants, and one agent whose calls a test chooses."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from cayu_review.services.membership import grant_role
from cayu_runtime import (
    Agent,
    Agreement,
    Call,
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
from cayu_runtime.contracts import Actor
from cayu_runtime.core import engine
from cayu_runtime.models import Approval, EffectRecord, Question, Session, Tenant
from cayu_runtime.policies import Allow, RequireApproval
from cayu_runtime.services.session import start_session
from cayu_runtime.services.tenant import create_tenant
from cayu_runtime.tools.ask_user import AskUser


class Deed(Tool):
    """Counts how often it ran. What it does then: answer, or break in a way that leaves its outcome unknown."""

    def __init__(self, spec: ToolSpec) -> None:
        super().__init__(spec)
        self.count = 0
        self.breaks = False

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        self.count += 1
        if self.breaks:
            raise ConnectionError("the connection broke")
        return ToolResult(content=f"Booked as R-{self.count}.")


class Office:
    """`north`: bob (viewer) asks, alice and erin are approvers. `south`: carol is an approver. dave has no role."""

    def __init__(self) -> None:
        self.desks: dict[Any, str] = {}  # a policy that changes makes what waits stale: each has an agent of its own
        self.north = create_tenant("north", "North Ltd")
        self.south = create_tenant("south", "South Ltd")
        self.alice = self.person("alice", self.north, "viewer", "approver")
        self.bob = self.person("bob", self.north, "viewer")
        self.erin = self.person("erin", self.north, "approver")
        self.carol = self.person("carol", self.south, "viewer", "approver")
        self.dave = User.objects.create_user("dave", password="dave's word")
        self.refund = Deed(ToolSpec("refund", effect=ToolEffect.EXTERNAL, verb="Refund order", target="order"))
        self.label = Deed(ToolSpec("label", effect=ToolEffect.IDEMPOTENT, verb="Label order", target="order"))
        self.look = Deed(ToolSpec("look", effect=ToolEffect.NONE, verb="Look up order", target="order"))

    def person(self, name: str, tenant: Tenant, *roles: str) -> User:
        user = User.objects.create_user(name, password=f"{name}'s word")
        for role in roles:
            grant_role(user, tenant, role)
        return user

    def client(self, user: User, **options: Any) -> Client:
        client = Client(**options)
        client.force_login(user)
        return client

    def actor(self, user: User, tenant: Tenant) -> Actor:
        return Actor(f"user:{user.pk}", user.username, tenant.id, "web")

    def ask(
        self,
        *calls: tuple[str, dict[str, Any]],
        by: User | None = None,
        tenant: Tenant | None = None,
        task: str = "refund order 1042",
        gated: Sequence[str] = ("refund", "label"),
        expires_in: float | None = None,
        reason: str = "Money leaves the company.",
        four_eyes: bool | None = None,
        editable: bool = False,
        agreement: Agreement | None = None,
    ) -> Session:
        """Start a session whose agent makes these calls, and run it until it waits or ends."""
        wanted = tuple(Call(name, arguments) for name, arguments in calls or [("refund", {"order": "1042"})])

        def desk(turn: Turn) -> Reply:
            if turn.outcomes:
                return Reply(" ".join(f"{outcome.tool}: {outcome.status}." for outcome in turn.outcomes))
            return Reply(calls=wanted)

        policy: ToolPolicy = Allow(("*",))
        if gated:
            policy = RequireApproval(tuple(gated), expires_in, four_eyes, reason, editable, agreement=agreement)
        name = self.desks.setdefault(policy, f"desk-{len(self.desks) + 1}" if self.desks else "desk")
        registry.register_for_test(
            Agent(
                name=name,
                model=desk,
                tools=(self.refund, self.label, self.look, AskUser()),
                policy=policy,
                example="refund order 1042",
                description="Does what a test tells it.",
            )
        )
        where = tenant or self.north
        session = start_session(where, self.actor(by or self.bob, where), agent=name, text=task)
        return self.run(session)

    def run(self, session: Session) -> Session:
        engine.run_session(session.id, "test")
        session.refresh_from_db()
        return session

    def approval(self, session: Session) -> Approval:
        return Approval.objects.filter(session=session).latest("created_at")

    def question(self, text: str = "How much?", **options: Any) -> Question:
        """What an agent asks in a session of its own."""
        arguments: dict[str, Any] = {"question": text}
        arguments |= {name: options.pop(name) for name in ("choices", "expires_in_hours") if name in options}
        session = self.ask(("ask_user", arguments), **options)
        return Question.objects.get(session=session)

    def effect(self, session: Session) -> EffectRecord:
        return EffectRecord.objects.filter(session=session).latest("created_at")

    def form(self, approval: Approval, decision: str, /, **changed: Any) -> dict[str, Any]:
        """What the page's form sends."""
        return {
            "decision": decision,
            "version": approval.version,
            "digest": approval.intent_digest.hex(),
            "reason": "",
            **changed,
        }

    def unknown(self, *calls: tuple[str, dict[str, Any]], **options: Any) -> EffectRecord:
        """A refund that was approved, dispatched, and broke without an answer."""
        session = self.ask(*calls, **options)
        self.refund.breaks = True
        approval = self.approval(session)
        answer = self.client(self.alice).post(f"/approvals/{approval.id}/decide/", self.form(approval, "approve"))
        assert answer.status_code == 302
        self.run(session)
        self.refund.breaks = False
        return self.effect(session)
