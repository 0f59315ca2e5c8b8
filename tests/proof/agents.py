"""The agents of the proof, and their tools, which do downstream what a message says and tell it of every request.

The message is JSON: `{"n": number, "rounds": [[[tool, arguments], …], …]}`. What a tool does stands in its argument
`do`: `go`, `refuse` (states that it did nothing), `lose request` and `lose answer` (the connection breaks before and
after the booking), `garbage` (books, and answers nonsense).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from cayu_review.policies import ReviewedAction
from cayu_review.tools import RecordProposal
from cayu_runtime import (
    Agent,
    Call,
    EffectNotPerformed,
    Finding,
    Inquiry,
    Limits,
    ModelError,
    Observation,
    PolicyDecision,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    Reconciler,
    Reply,
    Tool,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolResult,
    ToolSpec,
    Turn,
    Verdict,
    Verification,
    Verifier,
    registry,
)
from cayu_runtime.services.proposal import record_proposal
from cayu_runtime.tools.ask_user import AskUser
from tests.proof.downstream import Barred, Downstream

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
WAYS = ("go", "refuse", "lose request", "lose answer", "garbage")
SLOW_SECONDS = 0.15
PATIENCE = 30.0


class Scene:
    """What the tools of one schedule share. `held`: operations of slow tools, until they are let go. `failing`:
    numbers of sessions whose next model step fails. `away`: the adapters' downstream gives no answer.
    """

    def __init__(self, downstream: Downstream) -> None:
        self.downstream = downstream
        self.held: dict[str, threading.Event] = {}
        self.threads: dict[str, threading.Thread] = {}
        self.order: list[str] = []
        self.lost: set[str] = set()
        self.failing: set[int] = set()
        self.away = False

    def hold(self, dispatch: str) -> None:
        """Called by a slow tool: wait until the schedule lets it go on."""
        self.order.append(dispatch)
        self.threads[dispatch] = threading.current_thread()
        self.held[dispatch] = event = threading.Event()
        event.wait(PATIENCE)


class Deed(Tool):
    def __init__(self, scene: Scene, name: str, effect: ToolEffect, **spec: Any) -> None:
        properties = {"do": TEXT, "n": NUMBER, "action_id": TEXT}
        required = ["do", "n", "action_id"] if name == "change" else ["do", "n"]
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        super().__init__(ToolSpec(name, "", schema, effect, verb=name.capitalize(), target="n", **spec))
        self.scene = scene

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        scene, downstream = self.scene, self.scene.downstream
        number = downstream.arrive(ctx.operation_id, ctx.idempotency_key, ctx.dispatch_id, self.spec.name, args)
        if self.spec.name == "slow":
            scene.hold(ctx.dispatch_id)
            if ctx.dispatch_id in scene.lost:
                raise ConnectionError("its process is gone")
        if args["do"] == "refuse":
            downstream.end(number)
            raise EffectNotPerformed("It was refused.")
        if args["do"] == "lose request":
            raise ConnectionError("The request was lost.")
        said: dict[str, Any] = {}
        if self.spec.effect is not ToolEffect.NONE:
            try:
                said = {"booking": downstream.book(ctx.operation_id, ctx.idempotency_key, args).number}
            except Barred:
                downstream.end(number)
                raise EffectNotPerformed("This key is barred.") from None
        if args["do"] == "lose answer":
            raise ConnectionError("The answer was lost.")
        downstream.end(number)
        return 42 if args["do"] == "garbage" else ToolResult("done", said)


class Books(Reconciler):
    """Looks into the downstream's file; with `bars` a key that it does not find is barred first."""

    def __init__(self, scene: Scene, *, bars: bool) -> None:
        self.scene, self.bars = scene, bars

    def lookup(self, inquiry: Inquiry) -> Observation:
        if self.scene.away:
            raise ConnectionError("The downstream is away.")
        downstream, key = self.scene.downstream, inquiry.idempotency_key
        barred = self.bars and downstream.find(key) is None and downstream.bar(key)
        booking = downstream.find(key)
        if booking is None:
            return Observation(Finding.ABSENT, "Nothing is booked.", barred=barred)
        return Observation(Finding.CONFIRMED_DONE, "It is booked.", ToolResult("done", {"booking": booking.number}))

    def validate_receipt(self, receipt: Mapping[str, Any], inquiry: Inquiry) -> Observation:
        booking = self.scene.downstream.find(inquiry.idempotency_key)
        if booking is None or (receipt.get("operation"), receipt.get("booking")) != (
            inquiry.operation_id,
            booking.number,
        ):
            return Observation(Finding.CONFLICT, "The receipt is not one of this operation.")
        return Observation(Finding.CONFIRMED_DONE, "The receipt is right.", ToolResult("done", dict(receipt)))


class Looks(Verifier):
    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def verify(self, inquiry: Inquiry) -> Verification:
        if self.scene.away:
            return Verification(Verdict.INCONCLUSIVE, "The downstream is away.")
        found = self.scene.downstream.find(inquiry.idempotency_key) is not None
        return Verification(Verdict.PASSED if found else Verdict.FAILED, "looked")


class ByTool(ToolPolicy):
    """Asks a person about `gated` tools, lets the others go."""

    def __init__(self, *gated: str, seconds: float = 3600.0) -> None:
        self.gated, self.seconds = gated, seconds

    @property
    def identity(self) -> PolicyIdentity:
        return PolicyIdentity("by_tool", "1", {"gated": list(self.gated), "seconds": self.seconds})

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        if request.tool in self.gated:
            return PolicyResult(
                PolicyDecision.REQUIRE_APPROVAL, "asked", self.seconds, editable=request.tool in ("pay", "label")
            )
        return PolicyResult(PolicyDecision.ALLOW)


def tools_of(scene: Scene) -> dict[str, Tool]:
    made: dict[str, Tool] = {
        "glance": Deed(scene, "glance", ToolEffect.NONE),
        "look": Deed(scene, "look", ToolEffect.NONE, parallel_safe=False),
        "check": Deed(scene, "check", ToolEffect.NONE, parallel_safe=False),
        "label": Deed(scene, "label", ToolEffect.IDEMPOTENT),
        "tag": Deed(scene, "tag", ToolEffect.IDEMPOTENT, replay=False),
        "pay": Deed(scene, "pay", ToolEffect.EXTERNAL),
        "wire": Deed(scene, "wire", ToolEffect.EXTERNAL),
        "slow": Deed(scene, "slow", ToolEffect.EXTERNAL, timeout=SLOW_SECONDS),
        "lacks": Deed(scene, "lacks", ToolEffect.EXTERNAL, requires=("a resource that nobody has",)),
        "ask_user": AskUser(),
    }
    for name in ("label", "tag", "pay", "slow"):
        made[name].reconciler = Books(scene, bars=True)
    made["wire"].reconciler = Books(scene, bars=False)
    made["wire"].verifier = Looks(scene)
    return made


def declare(scene: Scene) -> None:
    """Register the agents of one schedule.

    `gated` asks about every effect, `open` about none, `short` stops after two steps, `reviewed` proposes.
    """

    def rule(turn: Turn) -> Reply:
        plan = json.loads(turn.message)
        if plan["n"] in scene.failing:
            scene.failing.discard(plan["n"])
            raise ModelError("unavailable", "The model is away.", retryable=True)
        made = len(turn.outcomes)
        for calls in plan["rounds"]:
            if made <= 0:
                return Reply(calls=tuple(Call(tool, arguments) for tool, arguments in calls))
            made -= len(calls)
        return Reply(" ".join(f"{outcome.tool}: {outcome.status}." for outcome in turn.outcomes) or "Nothing to do.")

    tools = tools_of(scene)
    change = Deed(scene, "change", ToolEffect.EXTERNAL)
    change.reconciler = Books(scene, bars=True)
    every = tuple(tools.values())
    gated = ByTool("check", "label", "tag", "pay", "wire", "slow", "lacks")
    registry.register_for_test(
        Agent(name="gated", model=rule, tools=every, policy=gated),
        Agent(name="open", model=rule, tools=every, policy=ByTool()),
        Agent(name="short", model=rule, tools=every, policy=gated, limits=Limits(max_steps=2)),
        Agent(
            name="reviewed",
            model=rule,
            tools=(RecordProposal(change, expires_in=7200.0), change, tools["look"]),
            policy=ReviewedAction(("change",), ("record_proposal", "look"), four_eyes=False, expires_in=3600.0),
            resources={"record_proposal": record_proposal},
        ),
    )
