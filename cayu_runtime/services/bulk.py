"""Several approvals decided by one person with one reason: each is decided for itself (UX 19)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from .. import authority
from ..contracts import Actor, ToolEffect
from ..core.results import visible
from ..errors import CayuError, InvalidRequest, NotTogether
from ..models import Approval, Tenant
from ..selectors.approval import find_approvals
from .approval import VERDICTS, decide_approval

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
    return [_decide(tenant, actor, item, rows.get(item.approval), verb, verdict, reason) for item in items]


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


def _decide(
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
