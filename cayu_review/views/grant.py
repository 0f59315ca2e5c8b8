"""Standing grants: what passes without a further approval, for everybody of the tenant to read; approvers make them."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from cayu_runtime import registry
from cayu_runtime.errors import Conflict, InvalidRequest
from cayu_runtime.selectors.grant import find_grant, last_quarantine, newest_grants, state_of
from cayu_runtime.services.grant import DEFAULT_USES, MAX_TIME, MAX_USES, grantable_tools, make_grant, revoke_grant

from ..actors import Member
from ..drafts import draft_of
from ..ranges import range_words
from .pages import READING, cursor_after, cursor_of, members_only, page

PAGE = 50
FIELDS = ("tool", "agent", "rules", "hours", "uses")
STATE_WORDS = {
    "live": "passes",
    "revoked": "taken back",
    "expired": "over",
    "used_up": "used up",
    "quarantined": "ended by a restored backup",
}


@require_http_methods([*READING, "POST"])
@members_only
def grants(request: HttpRequest, member: Member) -> HttpResponse:
    """The grants of the tenant, newest first, and for approvers the form that makes one."""
    if request.method != "POST":
        return _list(request, member)
    given = {name: request.POST.get(name, "").strip() for name in FIELDS}
    try:
        hours, uses = (_number(given[name], name) for name in ("hours", "uses"))
        for name in ("tool", "agent"):
            if len(given[name]) > 100 or "\0" in given[name]:
                raise InvalidRequest(f"No {name} has such a name.")
        grant = make_grant(
            member.tenant,
            member.actor,
            tool=given["tool"],
            agent=given["agent"],
            rules=given["rules"],
            reason=draft_of(request),
            lasts=timedelta(hours=hours),
            max_uses=uses,
        )
    except InvalidRequest as refusal:
        return _list(request, member, refusal.message, given, 400)
    messages.info(request, f"Calls of {grant.tool} in this range pass until {grant.expires_at:%Y-%m-%d %H:%M} UTC.")
    return redirect("grants")


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 6:
        raise InvalidRequest(f"Write the {what} as a whole number.")
    return int(text)


def _list(
    request: HttpRequest, member: Member, problem: str = "", given: dict[str, str] | None = None, status: int = 200
) -> HttpResponse:
    before = cursor_of(request) if request.method in READING else None
    found = newest_grants(member.tenant, before, PAGE)
    quarantined, now = last_quarantine(member.tenant), timezone.now()
    states = [state_of(grant, now, quarantined) for grant in found]
    tools = grantable_tools()
    context = {
        "rows": [
            {"grant": g, "state": s, "words": STATE_WORDS[s], "range": range_words(g.rules)}
            for g, s in zip(found, states, strict=True)
        ],
        "next": cursor_after(found[-1].made_at, found[-1].pk) if len(found) == PAGE else "",
        "first": "",
        "first_page": before is None,
        "tools": [(name, sorted({a for tool in of for a in tool.schema.get("properties", ())})) for name, of in
                  sorted(tools.items())],
        "agents": sorted(registry.agents()),
        "makes": "approver" in member.actor.roles,
        "most_hours": int(MAX_TIME.total_seconds() // 3600),
        "most_uses": MAX_USES,
        "problem": problem,
        "given": given or {"hours": "24", "uses": str(DEFAULT_USES)},
        "draft": draft_of(request) if problem else "",
    }  # fmt: skip
    return page(request, member, "review/grants.html", context, status)


@require_http_methods([*READING, "POST"])
@members_only
def revoke(request: HttpRequest, member: Member, grant_id: UUID) -> HttpResponse:
    """Take a grant back. Nothing is done by reading."""
    find_grant(member.tenant, grant_id)
    if request.method in READING:
        return redirect("grants")
    try:
        grant = revoke_grant(member.tenant, member.actor, grant_id, reason=draft_of(request))
    except InvalidRequest as refusal:
        return _list(request, member, refusal.message, status=400)
    except Conflict as conflict:
        return _list(request, member, conflict.message, status=409)
    messages.info(request, f"The grant for {grant.tool} is taken back. What has begun goes on; nothing else begins.")
    return redirect("grants")
