"""What a person is asked to approve: one row and one event, written when a call begins to wait (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..models import Approval, ToolCall
from . import ids
from .transitions import Change


def new_approval(
    change: Change,
    call: ToolCall,
    *,
    reason: str,
    expires_at: datetime,
    four_eyes: bool,
    asked: Mapping[str, Any],
    editable: bool = False,
    edited_by: str = "",
    version: int = 1,
    **told: Any,
) -> Approval:
    """An approval of exactly the call as it is, with its event; the caller inserts it. `asked` says who must agree (see
    `agreement`), `told` goes into the event.
    """
    approval = approval_of(
        change,
        call,
        reason,
        expires_at,
        four_eyes,
        editable=editable,
        edited_by=edited_by,
        version=version,
        **asked,
    )
    change.event(
        "tool.call.approval_requested",
        call=call,
        approval=str(approval.id),
        version=approval.version,
        digest=approval.intent_digest.hex(),
        expires_at=approval.expires_at.isoformat(),
        policy=call.policy,
        **told,
    )
    return approval


def approval_of(
    change: Change, call: ToolCall, reason: str, expires_at: datetime, four_eyes: bool, **values: Any
) -> Approval:
    """The row of an approval of exactly this call; pending, if `values` do not say otherwise."""
    session = change.session
    return Approval(
        id=ids.new_id(),
        tenant_id=call.tenant_id,
        session=session,
        call=call,
        intent_digest=call.intent_digest,
        agent=session.agent,
        task=session.task,
        tool=call.tool,
        verb=call.verb,
        target=call.target,
        effect_class=call.effect_class,
        policy_reason=reason,
        requester=session.requester,
        requester_name=session.requester_name,
        four_eyes=four_eyes,
        created_at=change.now,
        expires_at=expires_at,
        **{"state": "pending", **values},
    )
