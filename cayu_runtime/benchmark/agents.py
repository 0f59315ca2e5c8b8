"""The agents that are measured. Their tools do nothing but answer, so that what is measured is the machine.

REFERENCE   3 model steps, 3 tool calls, 1 approval: put a proposal on record; apply exactly that once a person approved
            it, verify it; say so
ROUNDS      one reading call in each round, as many rounds as the message asks for
CALLS       one round of allowed effect calls
UNCERTAIN   one allowed effect call whose answer is lost; its adapter confirms it
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ..contracts import (
    Agent,
    Finding,
    Inquiry,
    Limits,
    Observation,
    PolicyDecision,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    Reconciler,
    Reviewed,
    Tool,
    ToolContext,
    ToolEffect,
    ToolResult,
    ToolSpec,
)
from ..policies import Allow
from ..selectors.proposal import find_proposal
from ..services.proposal import record_proposal
from . import marks

CALLS_IN_ROUND = 20


def _fields(*names: str) -> dict[str, Any]:
    properties = {name: {"type": "string", "maxLength": 100} for name in names}
    return {"type": "object", "properties": properties, "required": list(names), "additionalProperties": False}


class Answering(Tool):
    """Answers at once with its arguments and a word for what it did."""

    def __init__(self, spec: ToolSpec, word: str) -> None:
        super().__init__(spec)
        self.word = word

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        marks.say(self.spec.name)
        return ToolResult(f"{self.word}: {args.get('action_id', '')}", {**args, "status": self.word})


class Recording(Answering):
    """Records its arguments as a proposal for `apply_change`."""

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        ctx.require("record_proposal")(ctx, tool=APPLY.spec.name, fields=args)
        return super().run(ctx, args)


class Losing(Answering):
    """Acts, and its answer is lost."""

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        raise ConnectionError("The answer was lost.")


class Confirming(Reconciler):
    """Confirms whatever it is asked about."""

    def lookup(self, inquiry: Inquiry) -> Observation:
        result = ToolResult(f"sent: {inquiry.arguments['action_id']}")
        return Observation(Finding.CONFIRMED_DONE, "It happened.", result)


class AsProposed:
    """A change waits for a person if it equals its proposal, and is denied if not; everything else is allowed.

    What `cayu_review` offers for this, people's side, the machine does not know; it reads and answers the same.
    """

    identity = PolicyIdentity("as_proposed", "1", {})

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        if request.tool != APPLY.spec.name:
            return PolicyResult(PolicyDecision.ALLOW)
        proposal = find_proposal(UUID(request.tenant), request.session_id, request.arguments["action_id"])
        if proposal is None or proposal.fields != request.arguments:
            return PolicyResult(PolicyDecision.DENY, "It is not what was proposed.")
        reviewed = Reviewed(proposal.action_id, proposal.fields_digest.hex())
        reason = "A change needs a second person."
        return PolicyResult(PolicyDecision.REQUIRE_APPROVAL, reason, four_eyes=True, reviewed=reviewed)


RECORD = Recording(
    ToolSpec(
        "record_proposal",
        "Write down what is to be changed, so that a person can review it.",
        _fields("action_id", "target", "reason"),
        ToolEffect.IDEMPOTENT,
        parallel_safe=False,
        verb="Record a proposal",
        target="target",
    ),
    "recorded",
)
APPLY = Answering(
    ToolSpec(
        "apply_change",
        "Make the change that was proposed and approved.",
        _fields("action_id", "target", "reason"),
        ToolEffect.IDEMPOTENT,
        parallel_safe=False,
        verb="Apply a change",
        target="target",
    ),
    "applied",
)
VERIFY = Answering(
    ToolSpec(
        "verify_change",
        "Read the changed system afresh and say whether the change is there.",
        _fields("action_id"),
        ToolEffect.NONE,
        verb="Verify a change",
        target="action_id",
    ),
    "verified",
)
READ = Answering(ToolSpec("read_value", "Read one value.", _fields("action_id"), ToolEffect.NONE), "read")
NOTE = Answering(
    ToolSpec("write_note", "Write one note.", _fields("action_id"), ToolEffect.IDEMPOTENT, parallel_safe=False), "noted"
)

SEND = Losing(
    ToolSpec("send_change", "Send a change.", _fields("action_id"), ToolEffect.EXTERNAL, target="action_id"), "sent"
)
SEND.reconciler = Confirming()

REFERENCE = Agent(
    name="bench-reference",
    model="bench:reference",
    instructions="Propose the change, apply it once a person approved it, verify it, then say what happened.",
    tools=(RECORD, APPLY, VERIFY),
    policy=AsProposed(),
    resources={"record_proposal": record_proposal},
)
ROUNDS = Agent(name="bench-rounds", model="bench:rounds", tools=(READ,), limits=Limits(max_steps=100_000))
CALLS = Agent(name="bench-calls", model="bench:calls", tools=(NOTE,), policy=Allow((NOTE.spec.name,)))
UNCERTAIN = Agent(name="bench-uncertain", model="bench:uncertain", tools=(SEND,), policy=Allow((SEND.spec.name,)))
