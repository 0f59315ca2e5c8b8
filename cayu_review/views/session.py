from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from cayu_runtime import authority, registry
from cayu_runtime.errors import Conflict, InvalidRequest, LimitReached, NotFound, NotPermitted
from cayu_runtime.models import Session
from cayu_runtime.selectors import session as sessions
from cayu_runtime.selectors.pause import pauses_in
from cayu_runtime.services.session import MAX_TEXT, start_session

from ..actors import Member
from ..drafts import draft_of, kept_draft
from ..story import conversation, event_words
from ..wording import seconds_to_refresh, session_next, session_words, tried_again_at
from .pages import members_only, number_of, page, unmoved

MESSAGES = 40
EVENTS = 200
ACTIONS = {"stop": "interrupt"}


@require_safe
@members_only
def session(request: HttpRequest, member: Member, session_id: str) -> HttpResponse:
    """One session: what was said, what was called and what came of it, what it waits for, and every event on record."""
    return show(request, member, find(member, session_id))


def find(member: Member, session_id: str) -> Session:
    found = sessions.find_session(member.tenant, session_id)
    if found is None:
        raise NotFound("There is no such session.")
    return found


def show(
    request: HttpRequest,
    member: Member,
    found: Session,
    *,
    problem: str = "",
    draft: str = "",
    status: int = 200,
) -> HttpResponse:
    """The session as it is now, with what is to be said of a deed that was not done."""
    pauses = [pause for pause in pauses_in(member.tenant) if pause.agent in ("", found.agent)]
    mark = f"{found.last_seq} {found.updated_at.isoformat()} {','.join(str(pause.pk) for pause in pauses)}".strip()
    if nothing := unmoved(request, mark):
        return nothing
    now = timezone.now()
    context = {
        "session": found,
        "words": session_words(found, now),
        "next_step": session_next(found, now),
        "again_at": tried_again_at(found, now),
        "matters": sessions.matters_of(found),
        "limit": sessions.limit_reached_by(found),
        "mark": mark,
        "refresh": seconds_to_refresh(found),
        "deeds": _deeds(member, found),
        "problem": problem,
        "draft": draft,
        "max_text": MAX_TEXT,
        "pauses": pauses,
        **_conversation(request, found),
        **_events(request, found),
    }
    return page(request, member, "review/session.html", context, status)


def _deeds(member: Member, found: Session) -> list[str]:
    """What this person may do to the session now; the services judge it again."""
    stopped = found.state == "interrupted" and found.stopped_by is not None
    over = found.state in ("completed", "failed")
    fitting = {
        "stop": not over and found.stopped_by != "operator_requested",
        "resume": stopped or found.state == "failed",
        "continue": found.state == "completed" or (found.state == "interrupted" and not sessions.has_open_round(found)),
    }
    hosted = [deed for deed, fits in fitting.items() if fits and (deed == "stop" or not found.client_driven)]
    return [deed for deed in hosted if _may(member, f"{ACTIONS.get(deed, deed)}_session", found)]


def _may(member: Member, action: str, found: Session) -> bool:
    try:
        authority.require(member.actor, action, found)
    except NotPermitted:
        return False
    return True


def _conversation(request: HttpRequest, found: Session) -> dict[str, object]:
    """The latest messages with the calls made among them, or those before a position of the transcript."""
    asked = number_of(request, "before")
    before = asked if asked is not None and asked < found.messages else None
    told = sessions.messages_of(found, before=before, limit=MESSAGES + 1)
    earlier = told[1].position if len(told) > MESSAGES else None
    shown = told[1:] if earlier is not None else told
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
    except LimitReached as limit:
        return _start_page(request, member, agent=agent, text=text, problem=limit.message, status=429)
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
        "text": text or kept_draft(request),
        "problem": problem,
        "started": started,
        "session_id": f"s-{uuid.uuid4().hex[:20]}",
        "max_text": MAX_TEXT,
    }
    return page(request, member, "review/start.html", context, status)
