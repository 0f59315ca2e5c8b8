from __future__ import annotations

import re
import uuid

from django.db import IntegrityError

from .. import authority, registry
from ..contracts import Actor
from ..core import abandonment, ids, results
from ..core.canonical import bounded
from ..core.routing import add_message, load_round, place_session, request_stop
from ..core.states import CLOSED_EFFECT, ENDED_SESSION
from ..core.transitions import Change, new_session, transition
from ..errors import (
    Conflict,
    InvalidRequest,
    LimitReached,
    NotAccepting,
    NotFound,
    NotResumable,
    SessionExists,
)
from ..models import EffectRecord, Session, Tenant
from .idempotency import Keep
from .tenant import admit_session

SESSION_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,80}")
MAX_TEXT = 32_000


def start_session(
    tenant: Tenant, actor: Actor, *, agent: str, text: str, session_id: str = "", keep: Keep | None = None
) -> Session:
    """Start a run of an agent with a person's message. It is runnable at once, and its wake-up commits with it.

    The requester is the actor, or the person for whom it acts. `keep` comes from `do_once`.
    InvalidRequest for an unknown agent, an empty or overlong message, or a malformed `session_id`; SessionExists when
    that `session_id` is taken in the tenant; LimitReached when the tenant has as many sessions as it may have;
    NotPermitted by the authority.
    """
    authority.require(actor, "start_session", tenant)
    declared = registry.find_agent(agent)
    if declared is None:
        known = ", ".join(sorted(registry.agents())) or "none"
        raise InvalidRequest(f"There is no agent {agent!r}. The agents are: {known}.")
    message = _message(text)
    if session_id and not SESSION_ID.fullmatch(session_id):
        raise InvalidRequest("A session_id has 1 to 80 letters, digits, '.', '_' or '-', and is not '.' or '..'.")
    session = Session(
        id=ids.new_id(),
        tenant=tenant,
        session_id=session_id or f"s-{uuid.uuid4().hex[:20]}",
        agent=declared.name,
        agent_version=declared.version,
        task=bounded(" ".join(message.split()), 200),
        requester=actor.asks_for,
        requester_name=actor.asks_for_name,
    )
    try:
        with new_session(session) as change:
            if keep is not None:
                keep(change)
            admit_session(tenant)
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
        raise _exists(session) from None
    except LimitReached:
        if Session.objects.filter(tenant=tenant, session_id=session.session_id).exists():
            raise _exists(session) from None  # perhaps it is this very request, sent again
        raise
    return session


def _exists(session: Session) -> SessionExists:
    return SessionExists(f"There is a session {session.session_id!r} already. Choose another id, or read that one.")


def interrupt_session(tenant: Tenant, actor: Actor, session_id: str, *, reason: str = "") -> Session:
    """Stop a session.

    What waits for a person is cancelled, what is authorised and not begun ends undone, what runs ends by its effect
    class. Then it is `interrupted(operator_requested)`, or waits for evidence if an outcome is unknown. A running
    session stops at its holder's next write. Conflict when it has ended; asking twice changes nothing.
    """
    found = _find(tenant, session_id)
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
    found = _find(tenant, session_id)
    authority.require(actor, "abandon_session", found)
    if not results.visible(reason):
        raise InvalidRequest("Say why: giving a session up needs a reason, which stays on record.")
    return abandonment.abandon(found.pk, tenant.pk, actor, reason)


def continue_session(
    tenant: Tenant, actor: Actor, session_id: str, *, text: str, keep: Keep | None = None
) -> tuple[Session, int]:
    """Go on with a further message of who asked for the session. Returns the session and the message's position.

    It is accepted in `completed`, and in `interrupted` with no open round; it then lifts what stopped the session, and
    the agent's steps count anew. Otherwise NotAccepting, and the transcript is as it was. InvalidRequest for an empty
    or overlong message; LimitReached when a completed one would be one session too many of the tenant; NotPermitted by
    the authority. `keep` comes from `do_once`.
    """
    found = _find(tenant, session_id)
    authority.require(actor, "continue_session", found)
    message = _message(text)
    with transition(found.pk, tenant=tenant.pk) as change:
        if keep is not None:
            keep(change)
        _refuse_message(change)
        session = change.session
        if session.state in ENDED_SESSION:
            admit_session(tenant)
        position = session.messages
        change.event("session.continued", by=actor.subject, by_name=actor.name, source=actor.source, position=position)
        add_message(change, "user", results.user_message(message, change.now))
        _lift_stop(change)
        _run(change)
    return session, position


def resume_session(tenant: Tenant, actor: Actor, session_id: str, *, reason: str = "") -> Session:
    """Lift what stopped a session: a limit, a model or a worker that was lost, an operator.

    Its agent's steps and tries count anew. What still waits for a person or for evidence goes on waiting for it. A
    failed session runs again if every effect of it is closed. One that runs or is about to stays as it is.
    NotResumable says what to do instead; LimitReached when a failed one would be one session too many of the tenant;
    NotPermitted by the authority.
    """
    found = _find(tenant, session_id)
    authority.require(actor, "resume_session", found)
    with transition(found.pk, tenant=tenant.pk) as change:
        session = change.session
        if session.state in ("pending", "running"):
            return session
        _refuse_resume(change)
        if session.state in ENDED_SESSION:
            admit_session(tenant)
        said = results.clean_text(reason, 500)
        change.event("session.resume_requested", by=actor.subject, by_name=actor.name, reason=said)
        was_failed = session.state == "failed"
        _lift_stop(change)
        if was_failed:
            _run(change)
        else:
            work = load_round(session.id)
            place_session(change, {call.state for call in work.calls} if work else set())
    return session


def _find(tenant: Tenant, session_id: str) -> Session:
    found = Session.objects.filter(tenant=tenant, session_id=session_id).first()
    if found is None:
        raise NotFound("There is no such session.")
    return found


def _message(text: str) -> str:
    message = results.visible(text)
    if not message:
        raise InvalidRequest("Say what the agent should do; the message is empty.")
    if len(message) > MAX_TEXT:
        raise InvalidRequest(f"The message has {len(message)} characters; at most {MAX_TEXT} are accepted.")
    return message


def _refuse_message(change: Change) -> None:
    session = change.session
    if session.client_driven:
        raise NotAccepting("The client of this session keeps its conversation. Send the message there.")
    if session.state == "failed":
        raise NotAccepting("This session failed. Resume it first, or start another one.")
    if session.state not in ("completed", "interrupted"):
        raise NotAccepting(f"This session is {session.state}. Wait until it has completed, or stop it first.")
    if load_round(session.id) is not None:
        raise NotAccepting(
            f"A round of calls is open ({session.interruption}). Let it be settled, or stop the session, then send it."
        )


def _refuse_resume(change: Change) -> None:
    session = change.session
    if session.state == "completed":
        raise NotResumable("This session is completed. Send it a message to go on.")
    if session.state == "interrupting":
        raise NotResumable("This session is being stopped. Resume it when it has stopped.")
    if session.state == "interrupted" and session.stopped_by is None:
        raise NotResumable(f"Nothing stopped this session; it waits ({session.interruption}) and goes on by itself.")
    if session.state == "failed" and _open_effects(session):
        raise NotResumable("An effect of this session is not closed. Settle it first.")


def _open_effects(session: Session) -> bool:
    return EffectRecord.objects.filter(session=session).exclude(state__in=CLOSED_EFFECT).exists()


def _lift_stop(change: Change) -> None:
    change.set(stopped_by=None, steps=0, stalls=0, model_failures=0)


def _run(change: Change) -> None:
    change.session_to("pending", runnable_at=change.now)
    change.event("session.resumed")
    change.wake()
