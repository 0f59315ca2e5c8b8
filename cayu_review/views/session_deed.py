"""What a person does to a session: stop it, resume it, go on with a message. Forms alone, by POST."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from cayu_runtime.errors import Conflict, InvalidRequest
from cayu_runtime.services.session import continue_session, interrupt_session, resume_session

from ..actors import Member
from .pages import deed, draft_of
from .session import find, show

STOPPED = {
    "interrupting": "Stop asked for. It stops at its worker's next step.",
    "operator_requested": "Stopped. What had not begun was not sent.",
    "effect_outcome_unknown": "Stop recorded. An outcome is unknown, so it still waits for evidence.",
}


@deed("session", find)
def stop(request: HttpRequest, member: Member, session_id: str) -> HttpResponse:
    """Stop it. What waits is cancelled, what runs ends by its effect class; asking twice changes nothing."""
    reason = draft_of(request)
    try:
        stopped = interrupt_session(member.tenant, member.actor, session_id, reason=reason)
    except Conflict as conflict:
        return _refused(request, member, session_id, conflict.message, 409)
    messages.info(request, STOPPED.get(stopped.interruption or stopped.state, "Stop recorded."))
    return redirect("session", session_id)


@deed("session", find)
def resume(request: HttpRequest, member: Member, session_id: str) -> HttpResponse:
    """Lift what stopped it. What waits for a person or for evidence goes on waiting."""
    try:
        resumed = resume_session(member.tenant, member.actor, session_id, reason=draft_of(request))
    except Conflict as conflict:
        return _refused(request, member, session_id, conflict.message, 409)
    waits = resumed.state == "interrupted"
    messages.info(
        request, "Resumed. It still waits for what is said here." if waits else "Resumed. A worker takes it up."
    )
    return redirect("session", session_id)


@deed("session", find)
def go_on(request: HttpRequest, member: Member, session_id: str) -> HttpResponse:
    """Send it a further message. The transcript is as it was if it is not accepted, and the words are kept."""
    try:
        continue_session(member.tenant, member.actor, session_id, text=draft_of(request))
    except InvalidRequest as problem:
        return _refused(request, member, session_id, problem.message, 400)
    except Conflict as conflict:
        return _refused(request, member, session_id, conflict.message, 409)
    messages.info(request, "Message recorded. A worker takes it up.")
    return redirect("session", session_id)


def _refused(request: HttpRequest, member: Member, session_id: str, problem: str, status: int) -> HttpResponse:
    found = find(member, session_id)
    return show(request, member, found, problem=problem, draft=draft_of(request), status=status)
