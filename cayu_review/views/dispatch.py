"""The kill switch of a tenant: what holds its calls back, for its administrators to close and to open."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from cayu_runtime import authority, registry
from cayu_runtime.errors import Conflict, InvalidRequest, NotFound
from cayu_runtime.selectors.pause import find_pause, pauses_in
from cayu_runtime.services.pause import pause_dispatch, resume_dispatch

from ..actors import Member
from ..drafts import draft_of
from .pages import READING, members_only, page


@require_http_methods([*READING, "POST"])
@members_only
def dispatch(request: HttpRequest, member: Member) -> HttpResponse:
    """What is paused now, and the form that pauses more."""
    authority.require(member.actor, "pause_dispatch", member.tenant)
    if request.method != "POST":
        return _page(request, member)
    tool, agent = (request.POST.get(name, "").strip() for name in ("tool", "agent"))
    try:
        pause_dispatch(member.actor, reason=draft_of(request), tenant=member.tenant, tool=tool, agent=agent)
    except InvalidRequest as refusal:
        return _page(request, member, refusal.message, 400)
    except Conflict as conflict:
        return _page(request, member, conflict.message, 409)
    messages.info(request, "Dispatch is paused. What has begun goes on; nothing else begins.")
    return redirect("dispatch")


def _page(request: HttpRequest, member: Member, problem: str = "", status: int = 200) -> HttpResponse:
    agents = registry.agents()
    given = {name: request.POST.get(name, "") for name in ("tool", "agent")}
    context = {
        "pauses": pauses_in(member.tenant),
        "agents": sorted(agents),
        "tools": sorted({tool.spec.name for agent in agents.values() for tool in agent.tools}),
        "problem": problem,
        "given": given,
        "draft": draft_of(request) if problem else "",
    }
    return page(request, member, "review/dispatch.html", context, status)


@require_http_methods([*READING, "POST"])
@members_only
def resume(request: HttpRequest, member: Member, pause_id: UUID) -> HttpResponse:
    """Lift one pause of this tenant; what it held back is woken. Nothing is done by reading."""
    pause = find_pause(member.tenant, pause_id)
    authority.require(member.actor, "pause_dispatch", member.tenant)
    if request.method != "POST":
        return redirect("dispatch")
    try:
        woken = resume_dispatch(member.actor, tenant=member.tenant, tool=pause.tool, agent=pause.agent)
    except NotFound:
        woken = 0  # somebody else lifted it at this moment
    except Conflict as conflict:
        return _page(request, member, conflict.message, 409)
    said = "Nothing was waiting for it." if not woken else f"Sessions that were waiting for it go on: {woken}."
    messages.info(request, f"Dispatch is resumed. {said}")
    return redirect("dispatch")
