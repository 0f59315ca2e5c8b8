from __future__ import annotations

from django.contrib.auth import views as auth
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from ..actors import Member, settle_tenant, switch_tenant
from .pages import members_only


class SignIn(auth.LoginView):
    """Sign-in by password. Where to go next is validated by Django."""

    template_name = "review/login.html"
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        settle_tenant(self.request)
        return response


class SignOut(auth.LogoutView):
    """Sign-out, by POST alone."""


@require_POST
@members_only
def tenant(request: HttpRequest, member: Member) -> HttpResponse:
    """Make another of the person's tenants the active one."""
    if not switch_tenant(request, request.POST.get("tenant", "")):
        raise BadRequest("You have no role in that tenant.")
    return redirect("queue")
