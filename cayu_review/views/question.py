from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from cayu_runtime import authority
from cayu_runtime.contracts.question import MAX_ANSWER
from cayu_runtime.errors import Conflict, InvalidRequest, NotFound, NotPermitted
from cayu_runtime.models import Question
from cayu_runtime.selectors import question as questions
from cayu_runtime.services.question import answer_question

from ..actors import Member
from ..wording import question_words
from .pages import cursor_after, cursor_of, deed, draft_of, members_only, page
from .queue import frame


@require_safe
@members_only
def to_answer(request: HttpRequest, member: Member) -> HttpResponse:
    """What agents ask, soonest to expire first."""
    after = cursor_of(request)
    rows = questions.waiting(member.tenant, after=after)
    context = {
        **frame(member),
        "tab": "answer",
        "rows": rows,
        "first_page": after is None,
        "next": cursor_after(rows[-1].expires_at, rows[-1].id) if len(rows) == questions.PAGE else "",
    }
    if not rows:
        context["last_answer"] = questions.last_answered(member.tenant)
    return page(request, member, "review/questions.html", context)


def _found(member: Member, question_id: UUID) -> Question:
    found = questions.find_question(member.tenant, question_id)
    if found is None:
        raise NotFound("There is no such question.")
    return found


@require_safe
@members_only
def question(request: HttpRequest, member: Member, question_id: UUID) -> HttpResponse:
    return _show(request, member, _found(member, question_id))


@deed("question", _found)
def answer(request: HttpRequest, member: Member, question_id: UUID) -> HttpResponse:
    """Record the answer to exactly what the page showed, then open what waits next."""
    draft = draft_of(request)
    try:
        answered = answer_question(
            member.tenant, member.actor, question_id, answer=draft, digest=request.POST.get("digest", "")
        )
    except InvalidRequest as problem:
        return _show(request, member, _found(member, question_id), problem=problem.message, draft=draft, status=400)
    except NotPermitted as refusal:
        return _show(request, member, _found(member, question_id), problem=refusal.message, draft=draft, status=403)
    except Conflict as conflict:
        return _show(request, member, _found(member, question_id), conflict=conflict, draft=draft, status=409)
    said = "You had answered this already." if answered.replay else "Answered. The agent is told."
    link = reverse("session", args=[answered.question.session.session_id])
    messages.info(request, format_html('{} <a href="{}">See what comes of it</a>', said, link))
    return _open_next(member, answered.question)


def _show(
    request: HttpRequest,
    member: Member,
    found: Question,
    *,
    status: int = 200,
    problem: str = "",
    conflict: Conflict | None = None,
    draft: str = "",
) -> HttpResponse:
    """The question as it is now. Who may answer is asked of the authority that will judge the answer."""
    now = timezone.now()
    context: dict[str, Any] = {
        "question": found,
        "open": found.state == "pending" and found.expires_at > now,
        "refusal": _refusal(member, found),
        "problem": problem,
        "conflict": conflict,
        "draft": draft,
        "words": question_words(found, now),
        "max_answer": MAX_ANSWER,
    }
    return page(request, member, "review/question.html", context, status)


def _refusal(member: Member, found: Question) -> str:
    """Why this person may not answer it; empty if they may."""
    try:
        authority.require(member.actor, "answer", found)
    except NotPermitted as refusal:
        return refusal.message
    return ""


def _open_next(member: Member, answered: Question) -> HttpResponse:
    """The next question that this person may answer, of those that come next; else the list."""
    following = questions.next_waiting(member.tenant, (answered.expires_at, answered.id), timezone.now())
    for waiting in following:
        if not _refusal(member, waiting):
            return redirect("question", waiting.id)
    return redirect("questions")
