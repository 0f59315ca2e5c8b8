from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth import views as auth
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from ..actors import Member, actor_for, settle_tenant, switch_tenant
from ..drafts import keep_draft
from ..moments import until
from ..oidc.provider import is_configured
from ..sign_in import (
    address_of,
    blocked_until,
    mark_sign_in,
    record_refusal,
    record_sign_in,
    record_sign_out,
    ways_in,
)
from .oidc import ID_TOKEN, end_there
from .pages import members_only

PASSWORD = "password"  # noqa: S105  the way in


class SignIn(auth.LoginView):
    """Sign-in by password. Where to go next is validated by Django; a draft goes there too, and nowhere else."""

    template_name = "review/login.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method == "POST" and request.user.is_authenticated:
            self._keep_draft()
        return super().dispatch(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        mark_sign_in(self.request, timezone.now())
        settle_tenant(self.request)
        actor = actor_for(self.request)
        if actor is not None:
            record_sign_in(actor, PASSWORD)
        self._keep_draft()
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        name = form.data.get("username", "")
        end = blocked_until(name, address_of(self.request))
        if end is None:
            record_refusal(name, PASSWORD, "wrong name or password, or an account that is switched off")
            return super().form_invalid(form)
        now = timezone.now()
        context = self.get_context_data(form=form, blocked=f"{until(end, now)}, at {end:%H:%M} UTC")
        response = self.render_to_response(context, status=429)
        response.headers["Retry-After"] = str(max(1, int((end - now).total_seconds()) + 1))
        return response

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        return super().get_context_data(draft=self.request.POST.get("draft", ""), ways=ways_in(), **context)

    def _keep_draft(self) -> None:
        address = urlsplit(self.get_redirect_url()).path
        if address:
            keep_draft(self.request, address, self.request.POST.get("draft", ""))


class SignOut(auth.LogoutView):
    """Sign-out, by POST alone; at the identity provider too, if the person came from there."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        actor = actor_for(request)
        if actor is not None:
            record_sign_out(actor)
        id_token = request.session.get(ID_TOKEN)
        response = super().post(request, *args, **kwargs)
        return (end_there(request, id_token) if id_token and is_configured() else None) or response


@require_POST
@members_only
def tenant(request: HttpRequest, member: Member) -> HttpResponse:
    """Make another of the person's tenants the active one."""
    if not switch_tenant(request, request.POST.get("tenant", "")):
        raise BadRequest("You have no role in that tenant.")
    return redirect("queue")
