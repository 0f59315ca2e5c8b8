"""People of a tenant and what they may do there: for its administrators. Each page says it; each form asks again."""

from __future__ import annotations

from datetime import UTC, datetime

from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from cayu_runtime import authority
from cayu_runtime.errors import InvalidRequest, NotFound

from ..actors import Member
from ..models.membership import LIMITED, MAX_TIER, ROLES
from ..selectors.identity import identities_of
from ..selectors.membership import PAGE, find_person, granted_to, people_in, person_of
from ..services.membership import Limits, grant_role, revoke_role
from .pages import READING, members_only, page

# What the form is called in a refusal that comes back, by the name of its field.
FIELDS = ("name", "role", "tier", "tools", "targets", "valid_from", "valid_until")


@require_safe
@members_only
def people(request: HttpRequest, member: Member) -> HttpResponse:
    """Everybody who holds or held a role in the tenant, by name."""
    authority.require(member.actor, "manage_people", member.tenant)
    return _list(request, member)


def _list(
    request: HttpRequest, member: Member, problem: str = "", given: dict[str, str] | None = None, status: int = 200
) -> HttpResponse:
    after = request.GET.get("after", "") if request.method in READING else ""
    if len(after) > 150 or "\0" in after:
        raise BadRequest("The address of this page is incomplete. Begin at the first page.")
    found = people_in(member.tenant, after)
    context = {
        "rows": found[:PAGE],
        "next": found[PAGE - 1].user.get_username() if len(found) > PAGE else "",
        "first_page": not after,
        "problem": problem,
        "given": given or {"role": "viewer", "tier": "1"},
        **_choices(),
    }
    return page(request, member, "review/people.html", context, status)


def _choices() -> dict[str, object]:
    return {"roles": ROLES, "tiers": range(1, MAX_TIER + 1), "limited": LIMITED}


@require_safe
@members_only
def person(request: HttpRequest, member: Member, person_id: int) -> HttpResponse:
    """One person's roles in the tenant, each with its limits, and the form that gives or changes one."""
    user = person_of(member.tenant, person_id)
    authority.require(member.actor, "manage_people", member.tenant)
    return _person(request, member, user)


def _person(
    request: HttpRequest,
    member: Member,
    user: AbstractBaseUser,
    problem: str = "",
    given: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {
        "person": user,
        "held": granted_to(user, member.tenant),
        "identities": identities_of(user),
        "problem": problem,
        "given": given or {"role": "viewer", "tier": "1"},
        **_choices(),
    }
    return page(request, member, "review/person.html", context, status)


@require_http_methods([*READING, "POST"])
@members_only
def give(request: HttpRequest, member: Member) -> HttpResponse:
    """Give a role to somebody by name, or change the limits of one that they hold. Nothing is done by reading."""
    authority.require(member.actor, "grant_role", member.tenant)
    if request.method in READING:
        return redirect("people")
    given = {name: request.POST.get(name, "") for name in FIELDS}
    try:
        user = find_person(given["name"].strip())
        if user is None:
            raise InvalidRequest("There is nobody with this name. Make the account first, under Records, Users.")
        fresh = grant_role(user, member.tenant, given["role"], actor=member.actor, limits=_limits(given))
    except InvalidRequest as refusal:
        return _list(request, member, refusal.message, given, 400)
    name = user.get_username()
    messages.info(request, f"{name} is {given['role']} now." if fresh else f"The role of {name} has these limits now.")
    return redirect("person", user.pk)


def _limits(given: dict[str, str]) -> Limits:
    tier = given["tier"].strip() or "1"
    if not (tier.isascii() and tier.isdecimal()) or len(tier) > 3:
        raise InvalidRequest(f"A tier is a whole number from 1 to {MAX_TIER}.")
    return Limits(
        tier=int(tier),
        tools=tuple(given["tools"].split()),
        targets=tuple(line.strip() for line in given["targets"].splitlines()),
        valid_from=_moment(given["valid_from"], "begins"),
        valid_until=_moment(given["valid_until"], "ends"),
    )


def _moment(text: str, what: str) -> datetime | None:
    """What a browser's field for date and time sends, in UTC."""
    if not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidRequest(f"When it {what} is no moment. Give it like 2027-01-31T18:00, in UTC.") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


@require_http_methods([*READING, "POST"])
@members_only
def take(request: HttpRequest, member: Member, person_id: int) -> HttpResponse:
    """Take one role from a person. It ends at once, also for pages that are open."""
    user = person_of(member.tenant, person_id)
    authority.require(member.actor, "revoke_role", member.tenant)
    if request.method in READING:
        return redirect("person", person_id)
    role = request.POST.get("role", "")
    if role not in ROLES:
        return _person(request, member, user, "Choose which role is taken.", status=400)
    taken = revoke_role(user, member.tenant, role, actor=member.actor)
    said = "is no {} any more." if taken else "was no {} any more already."
    messages.info(request, f"{user.get_username()} {said.format(role)}")
    try:
        person_of(member.tenant, person_id)
    except NotFound:
        return redirect("people")
    return redirect("person", person_id)
