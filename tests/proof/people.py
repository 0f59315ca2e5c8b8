"""What people do in a schedule: each deed is one call of a service, and what they were told of it is remembered."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from cayu_runtime import Actor
from cayu_runtime.models import Approval, DispatchPause, EffectRecord, Question, Session, Tenant
from cayu_runtime.services.approval import decide_approval, revoke_approval
from cayu_runtime.services.effect import Seen, look_up_effect, supply_receipt, verify_effect
from cayu_runtime.services.pause import pause_dispatch, resume_dispatch
from cayu_runtime.services.proposal import submit_proposal
from cayu_runtime.services.question import answer_question
from cayu_runtime.services.session import (
    abandon_session,
    continue_session,
    interrupt_session,
    resume_session,
    start_session,
)
from tests.proof.agents import WAYS, Scene

NAMES = ("bob", "carol", "dave")
USUAL = ("glance", "look", "check", "label", "label", "tag", "pay", "pay", "pay", "wire", "wire", "ask_user")
BY_CALL = ("session__id", "call__round__position", "call__position")
LEASED = ("running", "interrupting")


@dataclass(frozen=True, slots=True)
class Deed:
    """`decides`: (approval, verdict, actor) of a decision, which must not be lost once somebody was told of it."""

    name: str
    session: str
    work: Callable[[], Any]
    decides: tuple[str, str, str] | None = None


class People:
    def __init__(self, tenant: Tenant, scene: Scene, chance: random.Random, label: str) -> None:
        self.tenant, self.scene, self.chance, self.label = tenant, scene, chance, label
        self.willing = 0.75  # how often what is asked is approved
        self.started = 0
        self.names: dict[UUID, str] = {}

    def actor(self, name: str) -> Actor:
        return Actor(f"user:{name}", name, self.tenant.id, "web", ("approver",))

    def anybody(self) -> Actor:
        return self.actor(self.chance.choice(NAMES))

    def _actions(self, tools: tuple[str, ...], most: int) -> list[list[Any]]:
        calls = []
        for _ in range(self.chance.randint(1, most)):
            tool = self.chance.choice(tools)
            if tool == "ask_user":
                arguments: dict[str, Any] = {"question": "How much?"}
            else:
                way = self.chance.choice(WAYS) if self.chance.random() < 0.4 else "go"
                arguments = {"do": way, "n": self.chance.randint(1, 25)}
            calls.append([tool, arguments])
        return calls

    def _plan(self) -> tuple[str, list[list[list[Any]]]]:
        agent = self.chance.choice(("gated", "gated", "gated", "open", "open", "short", "reviewed"))
        if agent == "reviewed":
            fields = {"do": self.chance.choice(WAYS), "n": self.started, "action_id": f"{self.label}-{self.started}"}
            rounds = [[["record_proposal", fields]], [["change", fields]]]
            return agent, rounds[:1] if self.chance.random() < 0.15 else rounds
        tools = USUAL if self.chance.random() < 0.7 else (*USUAL, "slow", "slow", "lacks")
        rounds = [self._actions(tools, 3) for _ in range(3 if agent == "short" else self.chance.randint(1, 2))]
        if self.chance.random() < 0.1:
            rounds.insert(0, [["glance", {"do": "go", "n": n}] for n in range(2)])
        return agent, rounds

    def start(self) -> Deed:
        self.started += 1
        number = self.started
        agent, rounds = self._plan()
        if self.chance.random() < 0.12:
            self.scene.failing.add(number)
        text = json.dumps({"n": number, "rounds": rounds})
        alice = self.actor("alice")

        def work() -> Session:
            return start_session(self.tenant, alice, agent=agent, text=text, session_id=f"s{number}")

        return Deed("start", f"s{number}", work)

    def deeds(self) -> list[Deed]:
        """Everything that somebody may sensibly do now, in an order that does not depend on random ids."""
        self.names = dict(Session.objects.filter(tenant=self.tenant).values_list("id", "session_id"))
        return [
            *self._about_approvals(),
            *self._about_questions(),
            *self._about_effects(),
            *self._about_sessions(),
            *self._about_dispatch(),
        ]

    def decisions(self) -> list[Deed]:
        return [deed for deed in self._about_approvals() if deed.decides and deed.name != "revoke"]

    def _about_approvals(self) -> Iterator[Deed]:
        rows = Approval.objects.filter(tenant=self.tenant, state__in=("pending", "approved"))
        for row in rows.select_related("call__round", "session").order_by(*BY_CALL):
            verdict = "approve" if self.chance.random() < self.willing else "deny"
            if row.state == "pending":
                yield self.decide(row, verdict, self.anybody())
            elif self.chance.random() < 0.25:
                yield self._revoke(row, self.anybody())

    def decide(self, row: Approval, verdict: str, actor: Actor) -> Deed:
        seen: dict[str, Any] = {"version": row.version, "digest": bytes(row.intent_digest).hex(), "reason": "seen"}
        recorded = verdict
        if verdict == "approve" and row.editable and self.chance.random() < 0.15:
            before, n = row.call.arguments.get("n"), 100 + self.chance.randint(1, 25)
            seen["arguments"] = {**row.call.arguments, "n": n + 25 if n == before else n}
            recorded = "edit" if row.four_eyes else "approve"  # then somebody else must approve what they wrote
        key, session = row.pk, row.session.session_id

        def work() -> Any:
            return decide_approval(self.tenant, actor, key, verdict=verdict, **seen)

        return Deed(verdict, session, work, (str(key), recorded, actor.subject))

    def _revoke(self, row: Approval, actor: Actor) -> Deed:
        key, digest, version = row.pk, bytes(row.intent_digest).hex(), row.version

        def work() -> Any:
            return revoke_approval(self.tenant, actor, key, version=version, digest=digest, reason="changed my mind")

        return Deed("revoke", row.session.session_id, work, (str(key), "revoke", actor.subject))

    def _about_questions(self) -> Iterator[Deed]:
        for row in Question.objects.filter(tenant=self.tenant, state="pending").order_by(*BY_CALL):
            key, digest, actor = row.pk, bytes(row.digest).hex(), self.anybody()

            def work(key: UUID = key, digest: str = digest, actor: Actor = actor) -> Any:
                return answer_question(self.tenant, actor, key, answer="5", digest=digest)

            yield Deed("answer", self.names[row.session_id], work)

    def _about_effects(self) -> Iterator[Deed]:
        rows = EffectRecord.objects.filter(tenant=self.tenant).select_related("session")
        for row in rows.order_by(*BY_CALL):
            if row.state in ("outcome_unknown", "manual_review"):
                yield self.settle(row, self.anybody())
            elif row.state == "receipted" and row.session.state not in LEASED and self.chance.random() < 0.5:
                yield self.verify(row)

    def verify(self, row: EffectRecord) -> Deed:
        key, actor = row.pk, self.anybody()
        return Deed("verify", row.session.session_id, lambda: verify_effect(self.tenant, actor, key))

    def settle(self, row: EffectRecord, actor: Actor, *, surely: bool = False) -> Deed:
        key, as_seen = row.pk, Seen(row.revision, row.dispatch_id)
        booking = self.scene.downstream.find(row.idempotency_key)
        receipt = {"operation": row.operation_id, "booking": booking.number if booking else 0}
        supplied = not surely and self.chance.random() < 0.3

        def work() -> Any:
            if supplied:
                return supply_receipt(self.tenant, actor, key, as_seen, receipt, reason="bank statement")
            return look_up_effect(self.tenant, actor, key, as_seen, reason="a customer called")

        return Deed("receipt" if supplied else "look up", row.session.session_id, work)

    def late_receipt(self) -> Deed | None:
        """Somebody comes with a receipt for what was settled meanwhile."""
        rows = EffectRecord.objects.filter(tenant=self.tenant, state__in=("completed", "rejected", "safe_to_retry"))
        effects = list(rows.exclude(dispatch_id=None).select_related("session").order_by(*BY_CALL))
        if not effects:
            return None
        row, actor = self.chance.choice(effects), self.anybody()
        as_seen = Seen(row.revision - self.chance.randint(0, 1), row.dispatch_id)
        receipt = {"operation": row.operation_id, "booking": self.chance.randint(0, 3)}

        def work() -> Any:
            return supply_receipt(self.tenant, actor, row.pk, as_seen, receipt, reason="found it")

        return Deed("late receipt", row.session.session_id, work)

    def _about_sessions(self) -> Iterator[Deed]:
        for row in Session.objects.filter(tenant=self.tenant).order_by("id"):
            said, actor, name = row.state, self.anybody(), row.session_id
            if said not in ("completed", "failed") and self.chance.random() < 0.12:
                yield Deed("stop", name, partial(interrupt_session, self.tenant, actor, name))
            if said not in ("completed", "failed") and self.chance.random() < 0.04:
                yield self.abandon(row)
            if (row.stopped_by and said == "interrupted") or said == "failed":
                yield self.resume(row)
            if said == "completed" and self.chance.random() < 0.05:
                text = json.dumps({"n": 0, "rounds": [self._actions(("look", "pay", "label"), 2)]})
                yield Deed("continue", name, partial(continue_session, self.tenant, actor, name, text=text))
            if row.agent == "reviewed" and said != "failed" and self.chance.random() < 0.2:
                yield self._submit(row)

    def abandon(self, row: Session) -> Deed:
        name, actor = row.session_id, self.anybody()
        return Deed("abandon", name, lambda: abandon_session(self.tenant, actor, name, reason="over"))

    def resume(self, row: Session) -> Deed:
        name, actor = row.session_id, self.anybody()
        return Deed("resume", name, lambda: resume_session(self.tenant, actor, name))

    def _submit(self, row: Session) -> Deed:
        name, actor = row.session_id, self.anybody()
        fields = {"do": "go", "n": 1, "action_id": f"{self.label}-by-a-person-{self.chance.randint(1, 9)}"}
        return Deed("submit", name, lambda: submit_proposal(self.tenant, actor, name, tool="change", fields=fields))

    def _about_dispatch(self) -> Iterator[Deed]:
        bob = self.actor("bob")
        if DispatchPause.objects.filter(tenant=self.tenant).exists():
            yield self.unpause()
        elif self.chance.random() < 0.06:
            yield Deed("pause", "", lambda: pause_dispatch(bob, reason="looks odd", tenant=self.tenant, tool="pay"))

    def unpause(self) -> Deed:
        bob = self.actor("bob")
        return Deed("unpause", "", lambda: resume_dispatch(bob, tenant=self.tenant, tool="pay"))
