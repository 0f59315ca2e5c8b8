from __future__ import annotations

import uuid

from .. import authority
from ..contracts import Actor
from ..core import decisions
from ..core.decisions import Answer, Decided
from ..core.results import visible
from ..core.statements import find
from ..errors import Conflict, InvalidRequest, NotFound
from ..models import Approval, Tenant

VERDICTS = ("approve", "deny")


def decide_approval(
    tenant: Tenant, actor: Actor, approval_id: uuid.UUID, *, verdict: str, version: int, digest: str, reason: str = ""
) -> Decided:
    """Record a person's answer to exactly what they saw: `version` and `digest` (hex) of the approval.

    The same answer of the same person again returns the recorded one (`replay`). Raises NotFound, NotPermitted,
    InvalidRequest, or a Conflict: AlreadyDecided (names the winner), StaleVersion, DigestMismatch, ApprovalExpired.
    """
    approval = find(Approval, id=approval_id, tenant=tenant)
    if approval is None:
        raise NotFound("There is no such approval.")
    authority.require(actor, "decide", approval)
    answer = _checked(verdict, version, digest, reason)
    outcome = decisions.decide(approval.session_id, tenant.id, approval.id, answer, actor)
    if isinstance(outcome, Conflict):
        raise outcome
    return outcome


def _checked(verdict: str, version: int, digest: str, reason: str) -> Answer:
    if verdict not in VERDICTS:
        raise InvalidRequest("Decide with 'approve' or 'deny'.")
    if verdict == "deny" and not visible(reason):
        raise InvalidRequest("Say why: a denial needs a reason, which the agent is told.")
    try:
        seen = bytes.fromhex(digest)
    except ValueError:
        raise InvalidRequest("The digest is not hexadecimal. Send the one that stands on the approval.") from None
    if len(seen) != 32:
        raise InvalidRequest("The digest must be the approval's 64 hexadecimal digits.")
    return Answer(verdict, version, seen, reason)
