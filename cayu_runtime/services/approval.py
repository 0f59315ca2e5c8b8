from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from .. import authority, registry
from ..contracts import Actor, ToolEffect
from ..contracts.agreement import MAX_CONDITION, MAX_STAGES
from ..core import decisions, edits
from ..core.decisions import Answer, Decided
from ..core.edits import Edited
from ..core.judgement import registered
from ..core.results import visible
from ..core.statements import find
from ..errors import CayuError, Conflict, InvalidRequest, NotFound, NotTogether, StageMoved, StaleVersion
from ..models import Approval, Tenant
from ..selectors.approval import find_approvals

VERDICTS = ("approve", "deny")
NEED_REASON = {"deny": "a denial", "revoke": "taking an approval back"}
MAX_ITEMS = 50


@dataclass(frozen=True, slots=True)
class Item:
    """One approval as the person saw it: `version` and `digest` (hex)."""

    approval: uuid.UUID
    version: int
    digest: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of one item. `code` is `done`, `replay` (this person had decided it so before), or the code of the
    refusal, whose sentence is `message`. `approval` as it is now; None: this tenant has no such approval.
    """

    item: Item
    approval: Approval | None
    code: str
    message: str = ""

    @property
    def done(self) -> bool:
        return self.code in ("done", "replay")


def decide_approval(
    tenant: Tenant,
    actor: Actor,
    approval_id: uuid.UUID,
    *,
    verdict: str,
    version: int,
    digest: str,
    reason: str = "",
    arguments: Mapping[str, Any] | str | None = None,
    condition: str = "",
) -> Decided:
    """Record a person's answer to exactly what they saw: `version` and `digest` (hex) of the approval.

    With `arguments` (a JSON object, or its text) it approves these in place of the shown ones, where the policy allows
    that; they are judged again. Under four eyes it only changes them: somebody else must agree to the change.
    A `condition`, where the policy takes one, reaches the tool and the model. The approval stays pending while the
    policy asks for more people.
    The same answer of the same person again returns the recorded one (`replay`). Raises NotFound, NotPermitted,
    InvalidRequest, or a Conflict: AlreadyDecided (names the winner), StaleVersion, DigestMismatch, ApprovalExpired,
    HeldAction (an equal action is uncertain), ProposalConflict.
    """
    for _ in range(MAX_STAGES):
        approval = _find(tenant, approval_id)
        authority.require(actor, "decide", approval)
        if verdict not in VERDICTS:
            raise InvalidRequest("Decide with 'approve' or 'deny'.")
        answer = replace(_checked(verdict, version, digest, reason), asked=(approval.stage, approval.tier))
        if condition:
            answer = replace(answer, condition=_condition(approval, verdict, condition))
        if arguments is not None:
            if verdict != "approve":
                raise InvalidRequest("Only what is approved can be edited. Deny it without arguments.")
            if condition:
                raise InvalidRequest("Change the arguments, or tie your agreement to a condition, not both at once.")
            answer = replace(answer, edited=_edited(approval, answer, arguments))
            _require_for(actor, approval, answer.edited)
        agent = registry.find_agent(approval.agent)
        known = registered(agent) if agent is not None and verdict == "approve" else None
        outcome = decisions.decide(approval.session_id, tenant.id, approval.id, answer, actor, known)
        if not isinstance(outcome, StageMoved):  # else the authority is asked again, for the stage that it is in now
            break
    return _recorded(outcome)


def preview_edit(
    tenant: Tenant,
    actor: Actor,
    approval_id: uuid.UUID,
    *,
    version: int,
    digest: str,
    arguments: Mapping[str, Any] | str,
) -> Edited:
    """What approving with these arguments would be about: effective arguments and target. Records nothing.

    Raises as `decide_approval`; InvalidRequest too when nothing is changed.
    """
    approval = _find(tenant, approval_id)
    authority.require(actor, "decide", approval)
    answer = _checked("approve", version, digest, "")
    if approval.state != "pending" or answer.decides != (approval.version, bytes(approval.intent_digest)):
        raise StaleVersion("The request changed since this page was read. Read it again before deciding.")
    edited = _edited(approval, answer, arguments)
    if edited is None:
        raise InvalidRequest("These are the arguments that were asked for. Change one of them, or approve it as it is.")
    return edited


def revoke_approval(
    tenant: Tenant, actor: Actor, approval_id: uuid.UUID, *, version: int, digest: str, reason: str
) -> Decided:
    """Take an approval back before its call is dispatched; the agent is told that it was denied, and why.

    Whoever may decide it may revoke it. Raises as `decide_approval`; a Conflict says when it is too late.
    """
    approval = _find(tenant, approval_id)
    authority.require(actor, "revoke", approval)
    answer = _checked("revoke", version, digest, reason)
    return _recorded(decisions.revoke(approval.session_id, tenant.id, approval.id, answer, actor))


def decide_many(
    tenant: Tenant, actor: Actor, items: Sequence[Item], *, verdict: str, reason: str = ""
) -> list[Answered]:
    """Decide IDEMPOTENT items of one verb alike, in the order given: one transaction per item, an answer per item.

    An item in doubt (decided by somebody else, expired, changed, not permitted, of another class, or of another verb
    than the first one) is left alone and named; the others are decided. Locks never span two items, so two bulk
    operations over the same rows can't block each other for good. Raises InvalidRequest before any is decided: unknown
    verdict, denial without reason, no item, more than MAX_ITEMS, one of them twice.
    """
    if verdict not in VERDICTS:
        raise InvalidRequest("Decide with 'approve' or 'deny'.")
    if verdict == "deny" and not visible(reason):
        raise InvalidRequest("Say why: a denial needs a reason, which the agents are told.")
    if not items or len(items) > MAX_ITEMS:
        raise InvalidRequest(f"Choose between 1 and {MAX_ITEMS} requests.")
    if len({item.approval for item in items}) < len(items):
        raise InvalidRequest("One request stands in the list twice. Send each once.")
    rows = find_approvals(tenant, [item.approval for item in items])
    verb = verb_of(list(rows.values()))
    return [_decide_one(tenant, actor, item, rows.get(item.approval), verb, verdict, reason) for item in items]


def verb_of(approvals: Sequence[Approval]) -> str:
    """The verb that a set is about: that of the first that may be decided in one."""
    return next((a.verb for a in approvals if a.effect_class == ToolEffect.IDEMPOTENT), "")


def obstacle_to(actor: Actor, approval: Approval, verb: str) -> CayuError | None:
    """Why an approval can't be decided in a set of this verb by this person, whatever its state."""
    try:
        authority.require(actor, "decide", approval)
    except CayuError as refusal:
        return refusal
    if approval.effect_class != ToolEffect.IDEMPOTENT:
        return NotTogether("Only idempotent effects are decided together. Open this one and decide it for itself.")
    if approval.verb != verb:
        return NotTogether("It is another kind of action than the first one. Decide it in a set of its own.")
    return None


def _decide_one(
    tenant: Tenant, actor: Actor, item: Item, approval: Approval | None, verb: str, verdict: str, reason: str
) -> Answered:
    if approval is None:
        return Answered(item, None, "not_found", "There is no such approval.")
    obstacle = obstacle_to(actor, approval, verb)
    if obstacle is not None:
        return Answered(item, approval, obstacle.code, obstacle.message)
    try:
        decided = decide_approval(
            tenant, actor, approval.pk, verdict=verdict, version=item.version, digest=item.digest, reason=reason
        )
    except CayuError as refusal:
        approval.refresh_from_db()
        return Answered(item, approval, refusal.code, refusal.message)
    return Answered(item, decided.approval, "replay" if decided.replay else "done")


def _find(tenant: Tenant, approval_id: uuid.UUID) -> Approval:
    approval = find(Approval, id=approval_id, tenant=tenant)
    if approval is None:
        raise NotFound("There is no such approval.")
    return approval


def _recorded(outcome: Decided | Conflict) -> Decided:
    if isinstance(outcome, Conflict):
        raise outcome
    return outcome


def _edited(approval: Approval, answer: Answer, arguments: Mapping[str, Any] | str) -> Edited | None:
    """The edit of what the person saw; None if it changes nothing of that."""
    if isinstance(arguments, str) and not arguments.strip():
        raise InvalidRequest("There are no arguments. Write one JSON object, {} at least.")
    session = approval.session
    edited = edits.judge_edit(registry.find_agent(session.agent), session, approval, arguments)
    return None if edited.intent_digest == answer.digest else edited


def _require_for(actor: Actor, approval: Approval, edited: Edited | None) -> None:
    """What is changed may have another target or need a higher tier, which its editor must reach, unless somebody else
    must agree to it anyhow.
    """
    if edited is None or approval.four_eyes:
        return
    changed = copy(approval)
    changed.target = edited.target
    changed.tier = edited.agreement.stages[0].tier if edited.agreement is not None else 1
    authority.require(actor, "decide", changed)


def _condition(approval: Approval, verdict: str, condition: str) -> str:
    if verdict != "approve":
        raise InvalidRequest("Only an agreement can have a condition. Deny it, and say in the reason what would do.")
    if approval.agreement is None or not approval.agreement["conditions"]:
        raise InvalidRequest("The policy takes no condition here. Approve it as it is, or deny it and say why.")
    if not visible(condition) or len(condition) > MAX_CONDITION:
        raise InvalidRequest(f"Say the condition in 1 to {MAX_CONDITION} characters; it is never shortened.")
    return condition


def _checked(verdict: str, version: int, digest: str, reason: str) -> Answer:
    if verdict in NEED_REASON and not visible(reason):
        raise InvalidRequest(f"Say why: {NEED_REASON[verdict]} needs a reason, which the agent is told.")
    try:
        seen = bytes.fromhex(digest)
    except ValueError:
        raise InvalidRequest("The digest is not hexadecimal. Send the one that stands on the approval.") from None
    if len(seen) != 32:
        raise InvalidRequest("The digest must be the approval's 64 hexadecimal digits.")
    return Answer(verdict, version, seen, reason)
