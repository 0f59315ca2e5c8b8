"""Tokens of agent clients: for the administrators of a tenant. The text of a token is shown once, when it is made."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from cayu_runtime import authority
from cayu_runtime.errors import InvalidRequest

from ..actors import Member
from ..models.token import SCOPES
from ..selectors.membership import find_person
from ..selectors.token import find_token, newest_tokens
from ..services.token import MAX_DAYS, create_token, revoke_token
from .pages import READING, cursor_after, cursor_of, members_only, page

PAGE = 50
DEFAULT_DAYS = "90"


@require_http_methods([*READING, "POST"])
@members_only
def tokens(request: HttpRequest, member: Member) -> HttpResponse:
    """The tokens of the tenant, newest first, and the form that makes one."""
    authority.require(member.actor, "create_token", member.tenant)
    if request.method != "POST":
        return _list(request, member)
    given = {name: request.POST.get(name, "").strip() for name in ("name", "person", "days")}
    given["scopes"] = " ".join(request.POST.getlist("scopes"))
    try:
        person = find_person(given["person"])
        if person is None:
            raise InvalidRequest("There is nobody with this name. A token acts for a person who has a role here.")
        token, text = create_token(
            member.tenant, given["name"], person, given["scopes"].split(), _days(given["days"]), actor=member.actor
        )
    except InvalidRequest as refusal:
        return _list(request, member, {"problem": refusal.message, "given": given}, 400)
    return _list(request, member, {"made": token, "text": text})


def _days(text: str) -> int:
    """0, which is refused, for what is no number or has more digits than any that is accepted."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_DAYS)) else 0


def _list(
    request: HttpRequest, member: Member, more: dict[str, object] | None = None, status: int = 200
) -> HttpResponse:
    before = cursor_of(request) if request.method in READING else None
    found = newest_tokens(member.tenant, before, PAGE)
    context = {
        "rows": found,
        "next": cursor_after(found[-1].created_at, found[-1].pk) if len(found) == PAGE else "",
        "first": "",
        "first_page": before is None,
        "scopes": SCOPES,
        "most_days": MAX_DAYS,
        "given": {"days": DEFAULT_DAYS, "scopes": " ".join(SCOPES)},
        **(more or {}),
    }
    return page(request, member, "review/tokens.html", context, status)


@require_http_methods([*READING, "POST"])
@members_only
def end_token(request: HttpRequest, member: Member, token_id: UUID) -> HttpResponse:
    """End a token now. Nothing is done by reading."""
    token = find_token(member.tenant, token_id)
    authority.require(member.actor, "revoke_token", member.tenant)
    if request.method == "POST":
        revoke_token(token.pk, actor=member.actor)
        messages.info(request, f"The token {token.name} is ended. What it started goes on.")
    return redirect("tokens")
