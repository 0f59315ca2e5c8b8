from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from cayu_runtime.selectors import approval as approvals
from cayu_runtime.selectors import effect as effects
from cayu_runtime.selectors import question as questions
from cayu_runtime.selectors.pause import pauses_in
from cayu_runtime.selectors.session import count_running

from ..actors import Member
from ..selectors.claim import claims_on
from .pages import cursor_after, cursor_of, members_only, page


@require_safe
@members_only
def to_approve(request: HttpRequest, member: Member) -> HttpResponse:
    """What waits for a decision, soonest to expire first."""
    after = cursor_of(request)
    rows = approvals.waiting(member.tenant, after=after)
    context = {
        **frame(member),
        "tab": "approve",
        "rows": rows,
        "held": approvals.held_among(rows),
        "claims": claims_on(member.tenant, [row.id for row in rows]),
        "choosable": _choosable(member, rows),
        "first_page": after is None,
        "next": cursor_after(rows[-1].expires_at, rows[-1].id) if len(rows) == approvals.PAGE else "",
    }
    if not rows:
        context |= {"last_decision": approvals.last_decision(member.tenant), "running": count_running(member.tenant)}
    return page(request, member, "review/queue.html", context)


@require_safe
@members_only
def to_reconcile(request: HttpRequest, member: Member) -> HttpResponse:
    """Effects whose outcome nobody knows, longest unknown first. To be read; evidence settles them."""
    after = cursor_of(request)
    rows = effects.uncertain(member.tenant, after=after)
    last = rows[-1] if len(rows) == effects.PAGE else None
    context = {
        **frame(member),
        "tab": "reconcile",
        "rows": rows,
        "first_page": after is None,
        "next": cursor_after(last.unknown_since, last.id) if last and last.unknown_since else "",
    }
    return page(request, member, "review/reconcile.html", context)


def _choosable(member: Member, rows: list[approvals.QueueRow]) -> set[UUID]:
    """What this person may put into a set: idempotent requests, if there is more than one. The set is judged again."""
    if "approver" not in member.actor.roles:
        return set()
    own = member.actor.subject
    found = {r.id for r in rows if r.effect_class == "idempotent" and not (r.four_eyes and r.requester == own)}
    return found if len(found) > 1 else set()


def frame(member: Member) -> dict[str, object]:
    """What stands around each queue: the counts of all of them, and what is paused."""
    return {
        "pauses": pauses_in(member.tenant),
        "waiting": approvals.count_waiting(member.tenant),
        "asked": questions.count_waiting(member.tenant),
        "uncertain": effects.count_uncertain(member.tenant),
    }
