"""Recording what an agent wants to do, before it asks to do it (DESIGN §5)."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError

from ..contracts import ToolContext
from ..core import canonical, ids
from ..core.judgement import DEFAULT_APPROVAL_SECONDS, MAX_APPROVAL_SECONDS, MIN_APPROVAL_SECONDS
from ..core.reviewed import running_under
from ..core.statements import find
from ..core.transitions import transition
from ..errors import Conflict, Fenced, InvalidRequest, ProposalConflict
from ..models import Proposal
from ..models.proposal import MAX_FIELDS

ACTION_ID = re.compile(r"(?!op_)[A-Za-z0-9][A-Za-z0-9._:-]{0,199}", re.IGNORECASE)
TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Recorded:
    """The proposal on record. `replay`: it had been recorded before, with these same fields."""

    proposal: Proposal
    replay: bool


def record_proposal(
    ctx: ToolContext, *, tool: str, fields: Mapping[str, Any], expires_in: float | None = None
) -> Recorded:
    """Record the arguments of an action of `tool` for review: `fields`, the stable `action_id` among them.

    The capability that an agent hands to its recording tool (`resources={"record_proposal": record_proposal}`). It
    records only while the worker that dispatched `ctx` holds the session, and it is one transition. The
    proposal stays open for `expires_in` seconds (7 days if None, at most 30). The same action_id with the same fields
    and tool again gives the same record, whatever has become of it.

    InvalidRequest for an unusable action_id, or fields of more than 8 KiB; ProposalConflict when the action_id stands
    for other fields, another tool or another session; Conflict when the dispatch is over.
    """
    action_id, kept = _checked(tool, fields)
    lifetime = _lifetime(expires_in)
    digest = canonical.digest(kept)
    try:
        return _record(ctx, action_id, tool, kept, digest, lifetime)
    except Fenced:
        raise _over() from None
    except IntegrityError:
        other = find(
            Proposal, tenant=uuid.UUID(ctx.tenant), action_id=action_id
        )  # recorded by another session at the same moment
        if other is None:
            raise
        raise _conflict(other) from None


def _record(
    ctx: ToolContext, action_id: str, tool: str, fields: dict[str, Any], digest: bytes, lifetime: timedelta
) -> Recorded:
    tenant, dispatch = _identity(ctx)
    running = running_under(tenant, dispatch)
    if running is None:
        raise _over()
    call = running.call
    session = call.session_id
    with transition(session, tenant=tenant, fence=running.fence) as change:
        recorded = find(Proposal, tenant=tenant, action_id=action_id)
        if recorded is not None:
            if (recorded.session_id, recorded.tool, recorded.fields_digest) != (session, tool, digest):
                raise _conflict(recorded)
            return Recorded(recorded, replay=True)
        proposal = Proposal(
            id=ids.new_id(),
            tenant_id=change.session.tenant_id,
            session=change.session,
            recorded_by=call,
            round_position=running.round.position,
            action_id=action_id,
            tool=tool,
            fields=fields,
            fields_digest=digest,
            state="open",
            created_at=change.now,
            expires_at=change.now + lifetime,
        )
        change.add(proposal)
        change.event(
            "proposal.recorded",
            call=call,
            proposal=str(proposal.id),
            action_id=action_id,
            action_tool=tool,
            digest=digest.hex(),
            expires_at=proposal.expires_at.isoformat(),
        )
    return Recorded(proposal, replay=False)


def _checked(tool: str, fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if not isinstance(tool, str) or not TOOL.fullmatch(tool):
        raise InvalidRequest("A proposal names the one tool that it is for.")
    if not isinstance(fields, Mapping):
        raise InvalidRequest("The fields of a proposal are one JSON object: the arguments of the action.")
    try:
        kept: dict[str, Any] = canonical.exact(fields)
    except canonical.NotCanonical as problem:
        raise InvalidRequest(f"The fields can't be kept exactly. {problem}") from None
    size = len(canonical.canonical(kept))
    if size > MAX_FIELDS:
        raise InvalidRequest(f"The fields are {size} bytes of JSON; a proposal has at most {MAX_FIELDS}. Shorten them.")
    action_id = kept.get("action_id")
    if not isinstance(action_id, str) or not ACTION_ID.fullmatch(action_id):
        raise InvalidRequest(
            "action_id must be a text of 1 to 200 letters, digits, '.', '_', ':' or '-' that begins with a letter or "
            "digit and not with 'op_'."
        )
    return action_id, kept


def _lifetime(seconds: float | None) -> timedelta:
    if seconds is None:
        return timedelta(seconds=DEFAULT_APPROVAL_SECONDS)
    if isinstance(seconds, bool) or not math.isfinite(seconds) or seconds < MIN_APPROVAL_SECONDS:
        raise InvalidRequest(f"A proposal can't be open for {seconds!r} seconds. Give a positive number, or None.")
    return timedelta(seconds=min(float(seconds), MAX_APPROVAL_SECONDS))


def _identity(ctx: ToolContext) -> tuple[uuid.UUID, uuid.UUID]:
    try:
        return uuid.UUID(ctx.tenant), uuid.UUID(ctx.dispatch_id)
    except ValueError:
        raise _over() from None


def _over() -> Conflict:
    return Conflict("Nothing was recorded: the call that asked for it is not running under this dispatch.")


def _conflict(other: Proposal) -> ProposalConflict:
    return ProposalConflict(
        f"action_id {other.action_id!r} stands for another proposal already. Nothing was recorded; propose under a new "
        "action_id."
    )
