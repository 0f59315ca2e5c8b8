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

from .. import authority, registry
from ..contracts import Actor, InvalidArguments, ToolContext
from ..core import canonical, ids, judgement
from ..core.judgement import DEFAULT_APPROVAL_SECONDS, MAX_APPROVAL_SECONDS, MIN_APPROVAL_SECONDS
from ..core.reviewed import running_under
from ..core.statements import find
from ..core.transitions import Change, transition
from ..errors import Conflict, Fenced, InvalidRequest, NotFound, ProposalConflict
from ..models import Proposal, Session, Tenant, ToolCall
from ..models.proposal import MAX_FIELDS
from ..selectors.session import find_session

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
    try:
        return _record(ctx, action_id, tool, kept, lifetime)
    except Fenced:
        raise _over() from None
    except IntegrityError:
        # recorded by another session at the same moment
        other = find(Proposal, tenant=uuid.UUID(ctx.tenant), action_id=action_id)
        if other is None:
            raise
        raise _conflict(other) from None


def submit_proposal(
    tenant: Tenant,
    actor: Actor,
    session_id: str,
    *,
    tool: str,
    fields: Mapping[str, Any],
    expires_in: float | None = None,
) -> Recorded:
    """Record a proposal from outside of the agent: by its client, or by a person, for an action of a session's agent.

    It counts as recorded in the session's latest round, so a session that had none can ask for it from its second round
    on. `fields` become the action's effective arguments. Otherwise as `record_proposal`; NotFound for no such session;
    NotPermitted by the authority; InvalidRequest for a tool that the agent has not or that takes secrets, or arguments
    that it refuses.
    """
    session = find_session(tenant, session_id)
    if session is None:
        raise NotFound("There is no such session.")
    authority.require(actor, "record_proposal", session)
    action_id, kept = _checked(tool, _effective(session, tool, fields))
    lifetime = _lifetime(expires_in)
    try:
        with transition(session.pk, tenant=tenant.pk) as change:
            if change.session.state == "failed":
                raise Conflict("This session failed; nothing can be proposed in it.")
            position = max(0, change.session.rounds - 1)
            return _put(change, action_id, tool, kept, lifetime, position, None, actor)
    except IntegrityError:
        other = find(Proposal, tenant=tenant.pk, action_id=action_id)
        if other is None:
            raise
        raise _conflict(other) from None


def _effective(session: Session, tool: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the action would get, so that the record and the call can be compared exactly."""
    agent = registry.find_agent(session.agent)
    found = next((one for one in agent.tools if one.spec.name == tool), None) if agent else None
    if found is None:
        raise InvalidRequest(f"Agent {session.agent!r} has no tool {tool!r}. A proposal is for one of its tools.")
    if found.takes_secrets:
        raise InvalidRequest(f"{tool!r} takes secrets. What is reviewed holds no secret.")
    try:
        return judgement.effective_arguments(found, fields)
    except (InvalidArguments, canonical.NotCanonical) as problem:
        raise InvalidRequest(str(problem)) from None


def _record(ctx: ToolContext, action_id: str, tool: str, fields: dict[str, Any], lifetime: timedelta) -> Recorded:
    tenant, dispatch = _identity(ctx)
    running = running_under(tenant, dispatch)
    if running is None:
        raise _over()
    with transition(running.call.session_id, tenant=tenant, fence=running.fence) as change:
        return _put(change, action_id, tool, fields, lifetime, running.round.position, running.call)


def _put(
    change: Change,
    action_id: str,
    tool: str,
    fields: dict[str, Any],
    lifetime: timedelta,
    position: int,
    call: ToolCall | None,
    actor: Actor | None = None,
) -> Recorded:
    session, digest = change.session, canonical.digest(fields)
    recorded = find(Proposal, tenant=session.tenant_id, action_id=action_id)
    if recorded is not None:
        if (recorded.session_id, recorded.tool, recorded.fields_digest) != (session.pk, tool, digest):
            raise _conflict(recorded)
        return Recorded(recorded, replay=True)
    proposal = Proposal(
        id=ids.new_id(),
        tenant_id=session.tenant_id,
        session=session,
        recorded_by=call,
        round_position=position,
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
        **({"by": actor.subject, "by_name": actor.name} if actor else {}),
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
