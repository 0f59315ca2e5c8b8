"""Arguments that a person changes before approving (DESIGN §5): where the policy allows it, never the tool.

What is changed is judged again as if the agent had asked for it; the agent is told what ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..contracts import (
    Actor,
    Agent,
    Agreement,
    InvalidArguments,
    PolicyDecision,
    PolicyResult,
    Tool,
    ToolEffect,
)
from ..errors import InvalidRequest
from ..models import Approval, EffectRecord, Session
from . import agreement, judgement
from .canonical import NotCanonical, bounded, canonical, size_of
from .judgement import tool_for
from .transitions import Change

MAX_SHOWN = 8 * 1024
MAX_SAID = 1000


@dataclass(frozen=True, slots=True)
class Edited:
    """The arguments as a person changed them, valid and permitted, with what identifies the action they make, and who
    must agree to them.
    """

    arguments: dict[str, Any]
    target: str
    action_digest: bytes
    intent_digest: bytes
    agreement: Agreement | None = None


def judge_edit(agent: Agent | None, session: Session, approval: Approval, arguments: Mapping[str, Any] | str) -> Edited:
    """The effective arguments of an edit, after schema and policy. Outside any transaction.

    Raises InvalidRequest with a sentence for the person. One that was decided already is only identified.
    """
    call = approval.call
    if call.proposal_id is not None:
        raise InvalidRequest("A reviewed action is never edited. Deny it; the agent may propose anew.")
    if not approval.editable:
        raise InvalidRequest("The policy allows no change of these arguments. Deny it, and say what to ask for.")
    tool = tool_for(agent, call) if agent is not None else None
    if agent is None or tool is None:
        raise InvalidRequest("The tool or its policy changed since this was asked, so it can't be edited.")
    try:
        effective = judgement.effective_arguments(tool, arguments)
    except (InvalidArguments, NotCanonical) as error:
        raise InvalidRequest(f"These arguments do not fit the tool: {bounded(str(error), MAX_SAID)}") from None
    except Exception as error:  # the tool's own schema or validators failed, not what the person wrote
        raise InvalidRequest(f"The tool could not read these arguments ({type(error).__name__}).") from None
    wanted: Agreement | None = None
    if approval.state == "pending":
        refusal, wanted = _judge_changed(agent, session, tool, effective, approval)
        if refusal:
            raise InvalidRequest(f"The policy refuses these arguments: {refusal}")
    target = judgement.target_of(tool, effective)
    action, intent = judgement.action_digests(
        call.tenant_id,
        call.tool,
        call.tool_version,
        call.effect_class,
        effective,
        target,
        call.operation_id,
        judgement.identifying(tool, effective),
    )
    return Edited(effective, target, action, intent, wanted)


def _judge_changed(
    agent: Agent, session: Session, tool: Tool, arguments: dict[str, Any], approval: Approval
) -> tuple[str, Agreement | None]:
    """Why these arguments can't be approved under what was asked for, empty if they can; and who must agree to them.

    The policy is asked as if the agent had proposed them. Whatever it wants beyond what this approval has (four eyes, a
    shorter time, a proposal, no edit at all) is not got around by an edit.
    """
    _, answer = judgement.ask_policy(agent, session, tool, arguments)
    return _refusal_of(answer, tool, approval), answer.agreement


def _refusal_of(answer: PolicyResult, tool: Tool, approval: Approval) -> str:
    if answer.decision is PolicyDecision.DENY:
        return answer.reason or "It denies them."
    if answer.decision is PolicyDecision.ALLOW:
        return ""
    again = "The agent must propose them itself."
    four_eyes = answer.four_eyes if answer.four_eyes is not None else tool.spec.effect is ToolEffect.EXTERNAL
    if four_eyes and not approval.four_eyes:
        return f"They need a second person, and this request does not. {again}"
    if answer.reviewed is not None or not answer.editable:
        return f"They may not come from an edit. {again}"
    length = approval.expires_at - approval.created_at
    if (answer.expires_in or judgement.DEFAULT_APPROVAL_SECONDS) < length.total_seconds():
        return f"They may wait for a shorter time than this request. {again}"
    return ""


def apply(change: Change, approval: Approval, effect: EffectRecord | None, edited: Edited, actor: Actor) -> None:
    """T2: the call, its effect and the approval are about the changed arguments now, at their next version.

    Who had agreed before, agreed to something else: the stages begin anew.
    """
    call = approval.call
    before, digest = call.arguments, call.intent_digest
    fields = changed_fields(before, edited.arguments)
    values = {"before": {n: before.get(n) for n in fields}, "after": {n: edited.arguments.get(n) for n in fields}}
    identity = {"target": edited.target, "intent_digest": edited.intent_digest}
    change.update(
        call,
        arguments=edited.arguments,
        action_digest=edited.action_digest,
        version=call.version + 1,
        proposed_arguments=before if call.proposed_arguments is None else call.proposed_arguments,
        edited_by=actor.name[:200],
        **identity,
    )
    if effect is not None:
        change.update(effect, action_digest=edited.action_digest, **identity)
    asked = agreement.asked_of(change, edited.agreement)
    change.update(approval, version=approval.version + 1, edited_by=actor.subject, **identity, **asked)
    change.event(
        "tool.call.edited",
        call=call,
        approval=str(approval.id),
        by=actor.subject,
        by_name=actor.name,
        version=approval.version,
        digest=edited.intent_digest.hex(),
        digest_before=digest.hex(),
        fields=fields,
        **(values if size_of(values) <= MAX_SHOWN else {}),
    )


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The top-level arguments that differ."""
    names = [*before, *(name for name in after if name not in before)]
    return [name for name in names if _alone(before, name) != _alone(after, name)]


def _alone(arguments: Mapping[str, Any], name: str) -> bytes:
    """One argument in its canonical form, in which 1 and true differ; an absent one differs from null."""
    return canonical({name: arguments[name]} if name in arguments else {})
