"""A fresh sign-in before a decision that can't be undone, where the tenant asks for one."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, authenticate
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from ..actors import Member
from ..drafts import keep_draft, own_path
from ..moments import until
from ..sign_in import address_of, blocked_until, mark_sign_in, record_refusal, record_sign_in
from .oidc import lead_to_provider
from .pages import members_only, page

STEP_UP = "step_up_required"
OIDC_BACKEND = "cayu_review.oidc.backend.OidcBackend"
PASSWORD_AGAIN = "password again"  # noqa: S105  the way in


def sign_in_again(
    request: HttpRequest, member: Member, back: str, reason: str, written: Mapping[str, str]
) -> HttpResponse:
    """Nothing was decided. What was written stands on the page `back` again, once the person has signed in anew: at the
    provider if they came from there, else by their password.
    """
    keep_draft(request, back, reason, **written)
    if request.session.get(BACKEND_SESSION_KEY) == OIDC_BACKEND and OIDC_BACKEND in settings.AUTHENTICATION_BACKENDS:
        return lead_to_provider(request, back=back, again=True, status=403)
    return page(request, member, "review/again.html", {"next": back}, 403)


@require_POST
@members_only
def again(request: HttpRequest, member: Member) -> HttpResponse:
    """The password of the signed-in person once more; it counts as a new sign-in. Throttled like one."""
    back, name = own_path(request.POST.get("next", "")), request.user.get_username()
    user = authenticate(request, username=name, password=request.POST.get("password", ""))
    if user is not None and user.pk == request.user.pk:
        request.session.cycle_key()
        mark_sign_in(request, timezone.now())
        record_sign_in(member.actor, PASSWORD_AGAIN)
        return redirect(back or "queue")
    end, now = blocked_until(name, address_of(request)), timezone.now()
    if end is None:
        record_refusal(name, PASSWORD_AGAIN, "wrong password")
        return page(request, member, "review/again.html", {"next": back, "wrong": True}, 403)
    blocked = f"{until(end, now)}, at {end:%H:%M} UTC"
    return page(request, member, "review/again.html", {"next": back, "blocked": blocked}, 429)
