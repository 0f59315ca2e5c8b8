"""What the pages share: who is let in, how a page and a refusal are rendered, where a page of a list begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from cayu_runtime import authority
from cayu_runtime.errors import NotFound, NotPermitted

from ..actors import Member, member_for
from ..drafts import draft_of, drop_draft, kept_draft, own_path, page_of_form
from ..sign_in import ways_in

P = ParamSpec("P")
Key = TypeVar("Key", UUID, str)
View = Callable[..., HttpResponse]
Deed = Callable[[HttpRequest, Member, Key], HttpResponse]
READING = ("GET", "HEAD")
Cursor = tuple[datetime, UUID]
# With this header a page that is shown already asks for its parts again; its value is the mark of what it shows.
LIVE = "X-Cayu-Live"

__all__ = [
    "Cursor", "csrf_failure", "cursor_after", "cursor_of", "deed", "draft_of", "members_only", "number_of", "page",
    "unmoved",
]  # fmt: skip


def members_only(view: Callable[Concatenate[HttpRequest, Member, P], HttpResponse]) -> View:
    """A view for people with a role in their active tenant. What it raises becomes a page: 404, or 403 with a sentence.

    Who is not signed in is sent to sign in. What they were sending was not recorded; their words go through the sign-in
    with them, back to the page they were written on.
    """

    @wraps(view)
    @never_cache
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            if request.method in READING:
                return redirect_to_login(request.get_full_path())
            signed_out = {**_kept(request), "next": page_of_form(request), "ways": ways_in()}
            return render(request, "review/signed_out.html", signed_out, status=403)
        member = member_for(request)
        if member is None:
            return render(request, "review/no_membership.html", _kept(request), status=403)
        try:
            authority.require(member.actor, "view", member.tenant)
            response = view(request, member, *args, **kwargs)
        except NotFound as missing:
            raise Http404(missing.message) from None
        except NotPermitted as refusal:
            return page(request, member, "review/refused.html", {"refusal": refusal, **_kept(request)}, 403)
        if request.method == "POST" and response.status_code == 302:
            drop_draft(request)
        return response

    return guarded


def deed(address: str, find: Callable[[Member, Key], object]) -> Callable[[Deed[Key]], View]:
    """Where the forms of the page `address` are sent, by POST. Whoever comes by a link is led to that page, if there is
    one for them (`find` raises NotFound): nothing is done by reading.
    """

    def wrap(view: Deed[Key]) -> View:
        @require_http_methods([*READING, "POST"])
        @members_only
        @wraps(view)
        def guarded(request: HttpRequest, member: Member, **of: Key) -> HttpResponse:
            (key,) = of.values()
            if request.method == "POST":
                return view(request, member, key)
            find(member, key)
            return redirect(address, key)

        return guarded

    return wrap


def page(
    request: HttpRequest, member: Member, template: str, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """Render a page of a member. `now` is for showing lengths of time; what has expired is decided by the services.

    A page that refreshes itself gets its parts without the frame.
    """
    shown = {"member": member, "now": timezone.now(), **context}
    if LIVE in request.headers:
        return render(request, template, {**shown, "layout": "parts.html"}, status=status)
    shown["draft"] = shown.get("draft") or kept_draft(request)
    return render(request, template, shown, status=status)


def unmoved(request: HttpRequest, mark: str) -> HttpResponse | None:
    """204 for a page that refreshes itself and shows what this mark stands for already."""
    return HttpResponse(status=204) if request.headers.get(LIVE) == mark else None


def _kept(request: HttpRequest) -> dict[str, str]:
    """All that a person was sending, for a page that recorded nothing of it."""
    return {
        "draft": draft_of(request) or request.POST.get("draft", ""),
        "draft_arguments": request.POST.get("arguments", ""),
    }


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form whose token does not fit: nothing is recorded, and what the person wrote is given back.

    A sign-in form that is older than the sign-in in another tab leads on to where it would have led.
    """
    if request.user.is_authenticated and request.path in (reverse("login"), reverse("oidc")):
        if not request.POST.get("draft"):
            return redirect(own_path(request.POST.get("next", "")) or "queue")
    return render(request, "403_csrf.html", _kept(request), status=403)


def cursor_after(moment: datetime, row_id: UUID, only: Mapping[str, str] = MappingProxyType({})) -> str:
    """The query of the page that begins after this row, of a list that is narrowed like that."""
    return urlencode({**only, "after": f"{moment.isoformat()}~{row_id}"})


def cursor_of(request: HttpRequest) -> Cursor | None:
    """Where this page of a list begins; 400 if the address is malformed."""
    text = request.GET.get("after")
    if text is None:
        return None
    moment, _, row_id = text.partition("~")
    try:
        at = parse_datetime(moment)
        if at is None or at.tzinfo is None or not 1 < at.year < 9999:  # at the ends of time UTC has no such moment
            raise ValueError
        return at, UUID(row_id)
    except ValueError:
        raise BadRequest("The address of this page is incomplete. Begin at the first page.") from None


def number_of(request: HttpRequest, name: str) -> int | None:
    """A whole number from the address; 400 if it is none."""
    text = request.GET.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise BadRequest(f"The address of this page has no usable {name}.")
    return int(text)
