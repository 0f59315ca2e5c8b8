from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.views.decorators.http import require_POST, require_safe

from cayu_runtime import authority
from cayu_runtime.errors import Conflict, InvalidRequest, NotFound, NotPermitted
from cayu_runtime.models import Approval
from cayu_runtime.selectors.approval import find_approval, next_waiting
from cayu_runtime.services.approval import decide_approval

from ..actors import Member
from ..compare import differing_fields, pairs
from ..exact import rows
from ..wording import approval_words
from .pages import draft_of, members_only, page

SAID = {"approve": "Approved. Not dispatched yet.", "deny": "Denied. Nothing was sent."}


@require_safe
@members_only
def approval(request: HttpRequest, member: Member, approval_id: UUID) -> HttpResponse:
    return _show(request, member, _found(member, approval_id))


@require_POST
@members_only
def confirm(request: HttpRequest, member: Member, approval_id: UUID) -> HttpResponse:
    """The second step of approving an EXTERNAL effect, without JavaScript: asks again and keeps the reason."""
    return _show(request, member, _found(member, approval_id), draft=draft_of(request), confirming=True)


@require_POST
@members_only
def decide(request: HttpRequest, member: Member, approval_id: UUID) -> HttpResponse:
    """Record the decision on exactly what the page showed, then open what waits next."""
    draft = draft_of(request)
    try:
        decided = decide_approval(
            member.tenant,
            member.actor,
            approval_id,
            verdict=request.POST.get("decision", ""),
            version=_version(request),
            digest=request.POST.get("digest", ""),
            reason=draft,
        )
    except InvalidRequest as problem:
        return _show(request, member, _found(member, approval_id), problem=problem.message, draft=draft, status=400)
    except NotPermitted as refusal:
        return _show(request, member, _found(member, approval_id), problem=refusal.message, draft=draft, status=403)
    except Conflict as conflict:
        return _show(request, member, _found(member, approval_id), conflict=conflict, draft=draft, status=409)
    _say(request, decided.approval, decided.decision.verdict, replay=decided.replay)
    return _open_next(member, decided.approval)


def _found(member: Member, approval_id: UUID) -> Approval:
    found = find_approval(member.tenant, approval_id)
    if found is None:
        raise NotFound("There is no such approval.")
    return found


def _version(request: HttpRequest) -> int:
    text = request.POST.get("version", "")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidRequest("The form came without the version of the request. Read the page again, then decide.")
    return int(text)


def _show(
    request: HttpRequest,
    member: Member,
    found: Approval,
    *,
    status: int = 200,
    problem: str = "",
    conflict: Conflict | None = None,
    draft: str = "",
    confirming: bool = False,
) -> HttpResponse:
    """The approval as it is now. Which buttons exist is asked of the authority that will judge the decision."""
    now = timezone.now()
    decidable = found.state == "pending" and found.expires_at > now
    refusal = _refusal(member, found)
    beside = _beside_proposal(found)
    context: dict[str, Any] = {
        "approval": found,
        "arguments": rows(found.call.arguments),
        **beside,
        "decidable": decidable,
        "refusal": refusal,
        "confirms": found.effect_class == "external",
        "confirming": confirming and decidable and not refusal and not beside["blocked"],
        "problem": problem,
        "conflict": conflict,
        "draft": draft,
        "words": approval_words(found, now),
    }
    return page(request, member, "review/approval.html", context, status)


def _beside_proposal(found: Approval) -> dict[str, Any]:
    """A reviewed call beside its proposal, key by key; `blocked` says why it can't be approved as what was reviewed."""
    call, proposal = found.call, found.call.proposal
    if proposal is None:
        return {"proposal": None, "blocked": ""}
    differing = differing_fields(proposal.fields, call.arguments)
    blocked = ""
    if differing:
        blocked = f"The call differs from its proposal in: {', '.join(differing)}. It cannot be approved."
    elif found.state == "pending" and proposal.state != "open" and proposal.used_by_id != call.pk:
        blocked = f"Its proposal is {proposal.state}. It cannot be approved."
    return {"proposal": proposal, "pairs": pairs(proposal.fields, call.arguments), "blocked": blocked}


def _refusal(member: Member, found: Approval) -> str:
    """Why this person may not decide it; empty if they may."""
    try:
        authority.require(member.actor, "decide", found)
    except NotPermitted as refusal:
        return refusal.message
    return ""


def _say(request: HttpRequest, decided: Approval, verdict: str, *, replay: bool) -> None:
    session = decided.session
    said = f"You had decided this already. By now it is {decided.state}." if replay else SAID[verdict]
    link = reverse("session", args=[session.session_id])
    messages.info(request, format_html('{} <a href="{}">See what comes of it</a>', said, link))


def _open_next(member: Member, decided: Approval) -> HttpResponse:
    after = (decided.expires_at, decided.id)
    waiting = next_waiting(member.tenant, member.actor.subject, after, timezone.now())
    return redirect("approval", waiting) if waiting else redirect("queue")
