from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from cayu_runtime import registry
from cayu_runtime.errors import Conflict, InvalidRequest, NotFound
from cayu_runtime.models import Session
from cayu_runtime.selectors import session as sessions
from cayu_runtime.selectors.pause import pauses_in
from cayu_runtime.services.session import MAX_TEXT, start_session

from ..actors import Member
from ..story import conversation, event_words
from ..wording import seconds_to_refresh, session_words
from .pages import cursor_after, cursor_of, draft_of, members_only, number_of, page

MESSAGES = 40
EVENTS = 200


@require_safe
@members_only
def session_list(request: HttpRequest, member: Member) -> HttpResponse:
    before = cursor_of(request)
    found = sessions.newest_sessions(member.tenant, before=before)
    context = {
        "rows": [(row, session_words(row)) for row in found],
        "first_page": before is None,
        "next": cursor_after(found[-1].created_at, found[-1].id) if len(found) == sessions.PAGE else "",
    }
    return page(request, member, "review/sessions.html", context)


@require_safe
@members_only
def session(request: HttpRequest, member: Member, session_id: str) -> HttpResponse:
    """One session: what was said, what was called and what came of it, and every event on record."""
    found = sessions.find_session(member.tenant, session_id)
    if found is None:
        raise NotFound("There is no such session.")
    context = {
        "session": found,
        "words": session_words(found),
        "refresh": seconds_to_refresh(found),
        "pauses": [pause for pause in pauses_in(member.tenant) if pause.agent in ("", found.agent)],
        **_conversation(request, found),
        **_events(request, found),
    }
    return page(request, member, "review/session.html", context)


def _conversation(request: HttpRequest, found: Session) -> dict[str, object]:
    """The latest messages with the calls made among them, or those before a position of the transcript."""
    asked = number_of(request, "before")
    before = asked if asked is not None and asked < found.messages else None
    messages = sessions.messages_of(found, before=before, limit=MESSAGES + 1)
    earlier = messages[1].position if len(messages) > MESSAGES else None
    shown = messages[1:] if earlier is not None else messages
    if not shown:
        return {"entries": [], "latest": before is None}
    following = sessions.messages_of(found, before=before + 1, limit=1) if before is not None else []
    until = following[0].created_at if following else None
    calls = sessions.calls_of(found, since=shown[0].created_at, until=until)
    return {"entries": conversation(shown, calls), "earlier": earlier, "latest": before is None}


def _events(request: HttpRequest, found: Session) -> dict[str, object]:
    """The latest events, or those before a number."""
    last = min(found.last_seq, (number_of(request, "events_before") or found.last_seq + 1) - 1)
    first = max(0, last - EVENTS)
    events = sessions.events_of(found, after=first, limit=last - first)
    return {
        "events": [(event, event_words(event)) for event in events],
        "earlier_events": first + 1 if first else None,
        "latest_events": last == found.last_seq,
    }


@require_http_methods(["GET", "HEAD", "POST"])
@members_only
def start(request: HttpRequest, member: Member) -> HttpResponse:
    """Start a session. The form brings the id of the session it makes, so that sending it twice makes one."""
    if request.method != "POST":
        return _start_page(request, member)
    agent, text = request.POST.get("agent", ""), draft_of(request)
    session_id = request.POST.get("session_id", "")
    try:
        started = start_session(member.tenant, member.actor, agent=agent, text=text, session_id=session_id)
    except InvalidRequest as problem:
        return _start_page(request, member, agent=agent, text=text, problem=problem.message, status=400)
    except Conflict:
        return _start_page(request, member, agent=agent, text=text, started=session_id, status=409)
    return redirect("session", started.session_id)


def _start_page(
    request: HttpRequest,
    member: Member,
    *,
    agent: str = "",
    text: str = "",
    problem: str = "",
    started: str = "",
    status: int = 200,
) -> HttpResponse:
    agents = list(registry.agents().values())
    context = {
        "agents": agents,
        "chosen": agent or (agents[0].name if agents else ""),
        "text": text,
        "problem": problem,
        "started": started,
        "session_id": f"s-{uuid.uuid4().hex[:20]}",
        "max_text": MAX_TEXT,
    }
    return page(request, member, "review/start.html", context, status)
