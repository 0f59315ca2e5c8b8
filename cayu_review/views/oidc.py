"""The way to the identity provider and back.

Nobody is sent there by an answer to a form: the content policy lets forms lead to this site alone, and would follow
each redirect of theirs. A page in between leads on by itself, and by a link.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import structlog
from django.conf import settings
from django.contrib import auth
from django.contrib.sessions.backends.base import UpdateError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from ..actors import actor_for, settle_tenant
from ..drafts import MAX_DRAFT, keep_draft, own_path
from ..oidc.backend import OIDC, evidence_of, library_setting
from ..oidc.provider import find_provider, is_configured, name_of_provider
from ..oidc.refusal import SignInRefused
from ..selectors.identity import FRESH
from ..sign_in import mark_sign_in, record_refusal, record_sign_in

log = structlog.get_logger(__name__)

STATES = "oidc_states"  # mozilla-django-oidc's: sign-ins begun in this browser, by their state
# How long a sign-in lasts: what the provider no longer claims is noticed at the next one.
SIGN_IN_LASTS = timedelta(hours=12)
MAX_HINT = 8 * 1024  # of an ID token that travels in an address; a longer one is left out
ID_TOKEN = "cayu_oidc_id_token"  # noqa: S105  where it is kept
REFUSED = "The identity provider did not sign you in. Try again, or ask whoever runs it."
ASTRAY = "This sign-in was begun in another browser, too long ago, or is over. Begin it again from here."
OTHER_PERSON = (
    "You signed in as somebody else than before, so nothing was decided. Sign out first to change who you are."
)
NOT_FRESH = "The identity provider did not ask you to prove again who you are, so nothing was decided."


class AuthorizationRequest(OIDCAuthenticationRequestView):
    """Makes the request with state, nonce and S256 challenge, and remembers them. `again`: with a fresh sign-in."""

    again = False
    get_settings = staticmethod(library_setting)

    def get_extra_params(self, request: HttpRequest) -> dict[str, str]:
        return {"max_age": "0", "prompt": "login"} if self.again else {}


@require_POST
@never_cache
def begin(request: HttpRequest) -> HttpResponse:
    """From the sign-in page to the provider. A draft is kept until the person comes back."""
    _only_if_configured()
    back = own_path(request.POST.get("next", ""))
    if request.user.is_authenticated:
        return redirect(back or "queue")
    return lead_to_provider(request, back=back, draft=request.POST.get("draft", ""))


def lead_to_provider(
    request: HttpRequest, *, back: str, draft: str = "", again: bool = False, status: int = 200
) -> HttpResponse:
    """A page that leads to the provider's sign-in, from which the person comes back to `back`.

    With `again` the provider is to ask anew, and the signed-in person must be the one who comes back.
    """
    kept: dict[str, Any] = {"back": back, "draft": draft[:MAX_DRAFT], "again": str(request.user.pk) if again else ""}
    try:
        provider = find_provider()
    except SignInRefused as refusal:
        return _refused(request, refusal, kept)
    asking = AuthorizationRequest(again=again)
    asking.OIDC_OP_AUTH_ENDPOINT, asking.OIDC_RP_CLIENT_ID = provider.authorization, provider.client_id
    address = asking.get(request).url
    state = parse_qs(urlsplit(address).query)["state"][0]
    request.session[STATES][state].update(kept)
    request.session.modified = True
    if "?" in provider.authorization:
        address = provider.authorization + "&" + address[len(provider.authorization) + 1 :]
    return leave(request, address, "sign_in_again" if again else "sign_in", status)


def leave(request: HttpRequest, address: str, why: str, status: int = 200) -> HttpResponse:
    """The page in between. `why` is sign_in, sign_in_again or sign_out."""
    shown = {"address": address, "why": why, "provider": name_of_provider()}
    return render(request, "review/leave.html", shown, status=status)


@method_decorator(never_cache, name="dispatch")
class Callback(OIDCAuthenticationCallbackView):
    """Where the provider sends people back to. Only who began here, in this browser, and once."""

    get_settings = staticmethod(library_setting)
    kept: dict[str, Any]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        _only_if_configured()
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        kept = request.session.get(STATES, {}).get(request.GET.get("state", ""))
        if kept is None:
            return _astray(request)
        self.kept = kept
        try:
            if request.GET.get("iss", settings.CAYU_OIDC_ISSUER) != settings.CAYU_OIDC_ISSUER:
                raise self._given_up("wrong_issuer")
            if "error" in request.GET or not request.GET.get("code"):
                raise self._given_up("provider_refused")
            answer: HttpResponse = super().get(request)
        except SignInRefused as refusal:
            return self._refuse(refusal)
        except UpdateError:  # another tab was signed in at this moment, under a new session key
            request.session.modified = False
            return _astray(request)
        return answer

    def login_failure(self) -> HttpResponse:
        raise SignInRefused("provider_refused", REFUSED)

    def login_success(self) -> HttpResponse:
        """Signed in, under a new session key: tenant, draft and time of the sign-in stand in it."""
        request, evidence, back = self.request, evidence_of(self.request), self.kept["back"]
        if self.kept["again"]:
            self._check_again(evidence.authenticated_at)
        auth.login(request, self.user)
        request.session.cycle_key()
        request.session.set_expiry(timezone.now() + SIGN_IN_LASTS)
        if len(evidence.id_token) <= MAX_HINT:
            request.session[ID_TOKEN] = evidence.id_token
        mark_sign_in(request, evidence.authenticated_at)
        settle_tenant(request)
        if back:
            keep_draft(request, urlsplit(back).path, self.kept["draft"])
        actor = actor_for(request)
        if actor is not None:
            record_sign_in(actor, OIDC)
        return redirect(back or "queue")

    def _check_again(self, authenticated_at: Any) -> None:
        if self.kept["again"] != str(self.user.pk):
            raise SignInRefused("other_person", OTHER_PERSON)
        if authenticated_at is None or timezone.now() - authenticated_at > FRESH:
            raise SignInRefused("not_fresh", NOT_FRESH)

    def _given_up(self, code: str) -> SignInRefused:
        """The state can't be used any more. What the provider sends as its reason is not repeated."""
        del self.request.session[STATES][self.request.GET["state"]]
        self.request.session.modified = True
        return SignInRefused(code, REFUSED)

    def _refuse(self, refusal: SignInRefused) -> HttpResponse:
        user = self.request.user
        if self.kept["again"] and user.is_authenticated:
            record_refusal(user.get_username(), OIDC, refusal.code)
        return _refused(self.request, refusal, self.kept)


def end_there(request: HttpRequest, id_token: str) -> HttpResponse | None:
    """After a sign-out here, the way to the provider's; None if it has none, or can't be reached."""
    try:
        provider = find_provider()
    except SignInRefused:
        return None
    if not provider.end_session:
        return None
    asked = {
        "id_token_hint": id_token,
        "client_id": provider.client_id,
        "post_logout_redirect_uri": request.build_absolute_uri(reverse("login")),
    }
    joint = "&" if "?" in provider.end_session else "?"
    return leave(request, f"{provider.end_session}{joint}{urlencode(asked)}", "sign_out")


def _only_if_configured() -> None:
    if not is_configured():
        raise Http404("Sign-in by an identity provider is not set up here.")


def _astray(request: HttpRequest) -> HttpResponse:
    """Another tab has signed this person in meanwhile, or they never began here."""
    if request.user.is_authenticated:
        return redirect("queue")
    return _refused(request, SignInRefused("state_unknown", ASTRAY), {"back": "", "draft": "", "again": ""}, 400)


def _refused(request: HttpRequest, refusal: SignInRefused, kept: dict[str, Any], status: int = 403) -> HttpResponse:
    """Why it led nowhere, and the way back. Who was signed in before still is."""
    log.warning("oidc.refused", code=refusal.code, again=bool(kept["again"]))
    shown = {
        "refusal": refusal,
        "next": kept["back"],
        "draft": kept["draft"],
        "provider": name_of_provider(),
        "still": request.user.is_authenticated,
    }
    return render(request, "review/sign_in_refused.html", shown, status=status)
