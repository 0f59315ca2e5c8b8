"""What the tests of reviewed actions share: a system downstream, the three tools of its lifecycle, and their agent.

`change-0001` is proposed, applied and verified; each test says in which rounds.
"""

from __future__ import annotations

import asyncio
from typing import Any

from cayu_review.policies import ReviewedAction
from cayu_review.tools import RecordProposal
from cayu_runtime import Agent, Call, Reply, Tool, ToolContext, ToolEffect, ToolResult, ToolSpec, Turn, registry
from cayu_runtime.models import Approval, Proposal, Session, ToolCall
from cayu_runtime.services.proposal import record_proposal
from tests.machine import Machine

ID = {"type": "string", "pattern": "^change-[0-9]{4}$", "maxLength": 11}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action_id": ID,
        "target": {"type": "string", "enum": ["demo", "other"]},
        "reason": {"type": "string", "enum": ["observed_drift", "routine"]},
    },
    "required": ["action_id", "target", "reason"],
    "additionalProperties": False,
}
FIELDS = {"action_id": "change-0001", "target": "demo", "reason": "observed_drift"}


class System:
    """What stands downstream: it keeps each operation once, and the order in which it was spoken to."""

    def __init__(self) -> None:
        self.operations: dict[str, dict[str, Any]] = {}
        self.timeline: list[str] = []
        self.breaks = False

    async def correct(self, target: str, action_id: str) -> dict[str, str]:
        self.timeline += ["apply_started"]
        if self.breaks:
            raise ConnectionError("no answer came")
        await asyncio.sleep(0)  # whoever does not wait for us would be seen in the timeline
        receipt = {"action_id": action_id, "target": target, "status": "applied"}
        kept = self.operations.setdefault(action_id, {"target": target, "receipt": receipt})
        if kept["target"] != target:
            raise ValueError("another operation stands under this action_id")
        self.timeline.append("apply_finished")
        return receipt

    def observe(self, action_id: str) -> str | None:
        self.timeline.append("verify")
        return self.operations.get(action_id, {}).get("target")


class Apply(Tool):
    def __init__(self, system: System, effect: ToolEffect = ToolEffect.IDEMPOTENT, **spec: Any) -> None:
        super().__init__(
            ToolSpec("apply_change", "", SCHEMA, effect, parallel_safe=False, verb="Apply change", target="target",
                     **spec)
        )  # fmt: skip
        self.system = system
        self.count = 0

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        self.count += 1
        assert ctx.operation_id == args["action_id"]
        receipt = await self.system.correct(args["target"], args["action_id"])
        return ToolResult("change receipt", receipt)


class Verify(Tool):
    def __init__(self, system: System) -> None:
        schema = {
            "type": "object", "properties": {"action_id": ID}, "required": ["action_id"], "additionalProperties": False,
        }  # fmt: skip
        super().__init__(ToolSpec("verify_change", "", schema, ToolEffect.NONE))
        self.system = system

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        seen = self.system.observe(args["action_id"])
        verified = seen == "demo"
        said = {"action_id": args["action_id"], "observed_target": seen, "verified": verified}
        return ToolResult(
            "verification passed" if verified else "verification inconclusive", said, is_error=not verified
        )


def propose(**changed: Any) -> Call:
    return Call("record_proposal", {**FIELDS, **changed})


def act(**changed: Any) -> Call:
    return Call("apply_change", {**FIELDS, **changed})


VERIFY = Call("verify_change", {"action_id": "change-0001"})


class Operator:
    """An agent that makes the calls of `rounds`, and the system that its tools speak to."""

    def __init__(
        self,
        *rounds: list[Call],
        name: str = "operator",
        effect: ToolEffect = ToolEffect.IDEMPOTENT,
        lifetime: float | None = None,
        policy: Any = None,
        **spec: Any,
    ) -> None:
        self.system = System()
        self.apply = Apply(self.system, effect, **spec)
        self.requests: list[Turn] = []
        self.rounds = rounds
        tools = (RecordProposal(self.apply, expires_in=lifetime), self.apply, Verify(self.system))
        self.agent = Agent(
            name=name,
            model=self.rule,
            tools=tools,
            policy=policy or ReviewedAction(("apply_change",), ("record_proposal", "verify_change"), four_eyes=False),
            resources={"record_proposal": record_proposal},
        )
        registry.register_for_test(self.agent)

    def rule(self, turn: Turn) -> Reply:
        self.requests.append(turn)
        made = 0
        for calls in self.rounds:
            if made == len(turn.outcomes):
                return Reply(calls=tuple(calls))
            made += len(calls)
        return Reply("Change change-0001 is verified.")


def waiting(machine: Machine, operator: Operator) -> tuple[Session, Approval]:
    session = machine.start(operator.agent)
    (approval,) = machine.approvals(session)
    return session, approval


def actions(machine: Machine, session: Session) -> list[ToolCall]:
    return [call for call in machine.calls(session) if call.tool == "apply_change"]


def proposal() -> Proposal:
    return Proposal.objects.get()


def reason(call: ToolCall) -> str:
    return str((call.result or {}).get("reason", ""))


def reviewed_with(**options: Any) -> Any:
    return ReviewedAction(("apply_change",), ("record_proposal", "verify_change"), four_eyes=False, **options)
