"""The demo's second agent: it looks at a target, proposes to correct its drift, does so once authorised, and checks.

Its action is a reviewed one: what a person authorises equals what was put on record a round before.
"""

from __future__ import annotations

import re
from typing import Any

import httpx
from django.conf import settings

from cayu_review.policies import ReviewedAction
from cayu_review.tools import RecordProposal
from cayu_runtime import (
    Agent,
    Call,
    EffectNotPerformed,
    Outcome,
    Reply,
    Tool,
    ToolContext,
    ToolEffect,
    ToolResult,
    ToolSpec,
    Turn,
)
from cayu_runtime.services.proposal import record_proposal

REQUEST = re.compile(r"(?:please\s+)?check\s+(?P<target>[a-z0-9][a-z0-9.-]{0,59}?)[\s.!]*", re.IGNORECASE)
HOW = 'Tell me what to look at, like: "check demo".'
TARGET = {"type": "string", "pattern": "^[a-z0-9][a-z0-9.-]{0,59}$"}
ACTION_ID = {"type": "string", "pattern": "^change-[0-9]{4,12}$"}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


CHANGE = _object(action_id=ACTION_ID, target=TARGET, reason={"type": "string", "enum": ["observed_drift"]})


class ObserveTarget(Tool):
    """Reads how a target is. An answer that does not come is no observation, never a healthy one."""

    spec = ToolSpec(
        "observe_target",
        "Read whether a target has drifted.",
        _object(target=TARGET),
        ToolEffect.NONE,
        target="target",
        requires=("ledger",),
    )

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        answer = _ask(ctx, "GET", "/targets", params={"name": args["target"]})
        answer.raise_for_status()
        seen = answer.json()
        said = "has drifted" if seen["drifted"] else "is as wanted"
        return ToolResult(f"{args['target']} {said}.", seen)


class ApplyChange(Tool):
    """Corrects a target, under the action's own identity: the ledger collapses repeats of it."""

    spec = ToolSpec(
        "apply_change",
        "Correct a target whose drift was observed. Record the proposal first.",
        CHANGE,
        ToolEffect.IDEMPOTENT,
        parallel_safe=False,
        timeout=30,
        verb="Apply change to",
        target="target",
        requires=("ledger",),
    )

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        try:
            answer = _ask(ctx, "POST", "/changes", json=args)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise EffectNotPerformed("The ledger could not be reached; the change was never sent.") from error
        if answer.status_code in (200, 201):
            return ToolResult(f"Applied as {args['action_id']}.", answer.json())
        if 400 <= answer.status_code < 500:
            raise EffectNotPerformed(f"The ledger refused ({answer.status_code}): {answer.text[:500]}")
        raise RuntimeError(f"The ledger answered {answer.status_code}; whether it applied the change is unknown.")


class VerifyChange(Tool):
    """A fresh look at the target after the change: what is so, not what a receipt says."""

    spec = ToolSpec(
        "verify_change",
        "Check a change by a new look.",
        _object(action_id=ACTION_ID),
        ToolEffect.NONE,
        requires=("ledger",),
        verifies="apply_change",
        operation="action_id",
    )

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        answer = _ask(ctx, "GET", "/changes", params=args)
        seen = answer.json() if answer.status_code in (200, 404) else {}
        verified = not seen["drifted"] if seen.get("found") else None
        word = {True: "passed", False: "failed", None: "inconclusive"}[verified]
        said = {**args, "observed_target": seen.get("target"), "verified": verified}
        return ToolResult(f"Verification {word}.", said, is_error=verified is None)


def _ask(ctx: ToolContext, method: str, path: str, **content: Any) -> httpx.Response:
    address = f"{ctx.require('ledger')}{path}"
    return httpx.request(method, address, timeout=ctx.seconds_left, trust_env=False, **content)


def correct_drift(turn: Turn) -> Reply:
    """One step of the lifecycle: what comes next, from what came of the steps before."""
    outcomes = {outcome.tool: outcome for outcome in turn.outcomes}
    if "apply_change" in outcomes:
        return Reply(_said(outcomes["apply_change"], outcomes.get("verify_change")))
    if "record_proposal" in outcomes:
        return _after_proposal(outcomes["record_proposal"])
    if "observe_target" in outcomes:
        return _after_observation(outcomes["observe_target"])
    wanted = REQUEST.fullmatch(turn.message.strip())
    if wanted is None:
        return Reply(HOW)
    return Reply(calls=(Call("observe_target", {"target": wanted["target"].lower()}),))


def _after_observation(seen: Outcome) -> Reply:
    if seen.status != "completed":
        return Reply(f"I could not look, so I can't tell whether it has drifted. {seen.content}")
    found = seen.details["structured"]
    if not found["drifted"]:
        return Reply(f"{found['target']} is as wanted. There is nothing to change.")
    action_id = f"change-{found['observation']:04d}"
    fields = {"action_id": action_id, "target": found["target"], "reason": "observed_drift"}
    return Reply(f"{found['target']} has drifted.", (Call("record_proposal", fields),))


def _after_proposal(recorded: Outcome) -> Reply:
    if recorded.status != "completed":
        return Reply(f"I could not put the change on record, so I do not ask for it. {recorded.content}")
    fields = recorded.details["structured"]["fields"]
    check = Call("verify_change", {"action_id": fields["action_id"]})
    return Reply(calls=(Call("apply_change", fields), check))


def _said(applied: Outcome, checked: Outcome | None) -> str:
    if applied.status != "completed":
        return f"Nothing was changed ({applied.status}). {applied.content}".strip()
    receipt = applied.details["structured"]
    if checked is not None and (checked.details.get("structured") or {}).get("verified") is True:
        return f"Change {receipt['action_id']} was applied to {receipt['target']}, and a new look verified it."
    why = checked.content if checked else "It was not checked."
    return f"Change {receipt['action_id']} was applied to {receipt['target']}, but is not verified. {why}"


APPLY = ApplyChange()
DRIFT = Agent(
    name="drift",
    description="Looks whether something has drifted, and corrects it after a person approved exactly that.",
    model=correct_drift,
    instructions="Observe, diagnose, propose; act only as authorised; then verify by a new look, and say what is so.",
    tools=(ObserveTarget(), RecordProposal(APPLY), APPLY, VerifyChange()),
    policy=ReviewedAction(
        ("apply_change",),
        ("observe_target", "record_proposal", "verify_change"),
        four_eyes=False,
        reason="It equals the recorded proposal; a person must authorise the change.",
    ),
    resources={"ledger": settings.CAYU_LEDGER_URL, "record_proposal": record_proposal},
    example="check demo",
)
