from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .. import authority, registry
from ..contracts import Actor
from ..core import decisions, edits
from ..core.decisions import Answer, Decided
from ..core.edits import Edited
from ..core.judgement import registered
from ..core.results import visible
from ..core.statements import find
from ..errors import Conflict, InvalidRequest, NotFound, StaleVersion
from ..models import Approval, Tenant

VERDICTS = ("approve", "deny")
NEED_REASON = {"deny": "a denial", "revoke": "taking an approval back"}


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
) -> Decided:
    """Record a person's answer to exactly what they saw: `version` and `digest` (hex) of the approval.

    With `arguments` (a JSON object, or its text) it approves these in place of the shown ones, where the policy allows
    that; they are judged again.
    The same answer of the same person again returns the recorded one (`replay`). Raises NotFound, NotPermitted,
    InvalidRequest, or a Conflict: AlreadyDecided (names the winner), StaleVersion, DigestMismatch, ApprovalExpired,
    HeldAction (an equal action is uncertain), ProposalConflict.
    """
    approval = _find(tenant, approval_id)
    authority.require(actor, "decide", approval)
    if verdict not in VERDICTS:
        raise InvalidRequest("Decide with 'approve' or 'deny'.")
    answer = _checked(verdict, version, digest, reason)
    if arguments is not None:
        if verdict != "approve":
            raise InvalidRequest("Only what is approved can be edited. Deny it without arguments.")
        answer = replace(answer, edited=_edited(approval, answer, arguments))
    agent = registry.find_agent(approval.agent)
    known = registered(agent) if agent is not None and verdict == "approve" else None
    return _recorded(decisions.decide(approval.session_id, tenant.id, approval.id, answer, actor, known))


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
