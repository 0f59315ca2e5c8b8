from __future__ import annotations

import re
import uuid

from django.db import IntegrityError

from .. import authority, registry
from ..contracts import Actor
from ..core import abandonment, ids, results
from ..core.canonical import bounded
from ..core.routing import add_message, request_stop
from ..core.transitions import new_session, transition
from ..errors import Conflict, InvalidRequest, NotFound
from ..models import Session, Tenant

SESSION_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,80}")
MAX_TEXT = 32_000


def start_session(tenant: Tenant, actor: Actor, *, agent: str, text: str, session_id: str = "") -> Session:
    """Start a run of an agent with a person's message. It is runnable at once, and its wake-up commits with it.

    InvalidRequest for an unknown agent, an empty or overlong message, or a malformed `session_id`; Conflict when that
    `session_id` is taken in the tenant; NotPermitted by the authority.
    """
    authority.require(actor, "start_session", tenant)
    declared = registry.find_agent(agent)
    if declared is None:
        known = ", ".join(sorted(registry.agents())) or "none"
        raise InvalidRequest(f"There is no agent {agent!r}. The agents are: {known}.")
    message = results.visible(text)
    if not message:
        raise InvalidRequest("Say what the agent should do; the message is empty.")
    if len(message) > MAX_TEXT:
        raise InvalidRequest(f"The message has {len(message)} characters; at most {MAX_TEXT} are accepted.")
    if session_id and not SESSION_ID.fullmatch(session_id):
        raise InvalidRequest("A session_id has 1 to 80 letters, digits, '.', '_' or '-', and is not '.' or '..'.")
    session = Session(
        id=ids.new_id(),
        tenant=tenant,
        session_id=session_id or f"s-{uuid.uuid4().hex[:20]}",
        agent=declared.name,
        agent_version=declared.version,
        task=bounded(" ".join(message.split()), 200),
        requester=actor.subject,
        requester_name=actor.name,
    )
    try:
        with new_session(session) as change:
            change.session_to("pending", runnable_at=change.now)
            change.event(
                "session.started",
                agent=declared.name,
                agent_version=declared.version,
                by=actor.subject,
                by_name=actor.name,
                source=actor.source,
            )
            add_message(change, "user", results.user_message(message, change.now))
            change.wake()
    except IntegrityError:
        raise Conflict(
            f"There is a session {session.session_id!r} already. Choose another id, or read that one."
        ) from None
    return session


def interrupt_session(tenant: Tenant, actor: Actor, session_id: str, *, reason: str = "") -> Session:
    """Stop a session.

    What waits for a person is cancelled, what is authorised and not begun ends undone, what runs ends by its effect
    class. Then it is `interrupted(operator_requested)`, or waits for evidence if an outcome is unknown. A running
    session stops at its holder's next write. Conflict when it has ended; asking twice changes nothing.
    """
    found = Session.objects.filter(tenant=tenant, session_id=session_id).first()
    if found is None:
        raise NotFound("There is no such session.")
    authority.require(actor, "interrupt_session", found)
    with transition(found.pk, tenant=tenant.pk) as change:
        session = change.session
        if session.state in ("completed", "failed"):
            raise Conflict(f"This session is {session.state} already; there is nothing to stop.")
        if session.stopped_by != "operator_requested":
            said = results.clean_text(reason, 500)
            change.event("session.stop_requested", by=actor.subject, by_name=actor.name, reason=said)
            request_stop(change)
    return session


def abandon_session(tenant: Tenant, actor: Actor, session_id: str, *, reason: str) -> Session:
    """Give a session up: it fails, each open call gets its result, what waits is cancelled, whoever holds it is fenced.

    An effect of which nobody knows whether it happened stays uncertain; evidence may still settle it, and then wakes
    nothing. NotFound, NotPermitted, InvalidRequest without a reason, Conflict when it has ended.
    """
    found = Session.objects.filter(tenant=tenant, session_id=session_id).first()
    if found is None:
        raise NotFound("There is no such session.")
    authority.require(actor, "abandon_session", found)
    if not results.visible(reason):
        raise InvalidRequest("Say why: giving a session up needs a reason, which stays on record.")
    return abandonment.abandon(found.pk, tenant.pk, actor, reason)
