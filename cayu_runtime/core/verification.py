"""What a check found, beside the effect that it is about (DESIGN §4). The receipt stays what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..contracts import Tool, ToolResult
from ..models import EffectRecord, ToolCall
from .canonical import bounded, digest, storable
from .transitions import Change

MAX_SAID = 500
LOOKED_AT = 100
VERDICTS = {True: "passed", False: "failed"}


@dataclass(frozen=True, slots=True)
class Check:
    """One run of a tool that verifies another: `tool` is the one verified, `operation` identifies what, if given.

    `argument` is the name under which both tools are given the operation.
    """

    tool: str
    argument: str
    operation: Any
    verdict: str


def check_of(tool: Tool, arguments: dict[str, Any], result: ToolResult) -> Check:
    """What a verifying tool's result says. Only `verified: true` or `false` in `structured` says anything definite."""
    spec = tool.spec
    said = None if result.is_error or result.structured is None else storable(result.structured).get("verified")
    verdict = VERDICTS[said] if isinstance(said, bool) else "inconclusive"
    return Check(spec.verifies, spec.operation, arguments.get(spec.operation) if spec.operation else None, verdict)


def record_verification(change: Change, call: ToolCall, check: Check, result: dict[str, Any]) -> dict[str, Any]:
    """Attach a check to the latest completed effect of its operation in this session; returns what the model is told.

    The latest check stands, but one that could not tell never replaces one that could.
    """
    effect = _effect_of(change, check)
    if effect is None:
        text = f"This session has no completed effect of {check.tool} that this check could be about."
        return {"effect": None, "verification": check.verdict, "said": text}
    if check.verdict != "inconclusive" or effect.verification is None:
        evidence = {
            "call": str(call.id),
            "tool": call.tool,
            "tool_version": call.tool_version,
            "said": bounded(result["content"], MAX_SAID),
            "result_digest": digest(result).hex(),
            "at": change.now.isoformat(),
        }
        change.update(effect, verification=check.verdict, verification_evidence=evidence)
    change.event(
        "tool.effect.verified",
        call=call,
        effect=str(effect.id),
        operation=effect.operation_id,
        verified_tool=effect.tool,
        verification=check.verdict,
        stands=effect.verification,
    )
    return {"effect": str(effect.id), "operation": effect.operation_id, "verification": check.verdict}


def _effect_of(change: Change, check: Check) -> EffectRecord | None:
    done = EffectRecord.objects.filter(session=change.session, tool=check.tool, state="completed")
    done = done.order_by("-closed_at", "-id")
    if not check.argument:
        return done.first()
    for effect in done.select_related("call")[:LOOKED_AT]:
        arguments = effect.call.arguments
        named = arguments.get(check.argument) if isinstance(arguments, dict) else None
        if check.operation is not None and check.operation in (effect.operation_id, named):
            return effect
    return None
