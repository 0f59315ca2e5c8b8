"""The admin, for the people of this project: who gets in is said by memberships, as everywhere (DESIGN §8).

Django's `is_staff` is not asked. An auditor reads the rows of their active tenant, an administrator manages its people,
a superuser manages all people and sees the workers, and reads no tenant's rows without the role for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from cayu_runtime import authority
from cayu_runtime.admin_site import AuditSite
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import NotPermitted
from cayu_runtime.models import Tenant

from .actors import Member, actor_for, member_for
from .views.pages import page

REMEMBERED = "_cayu_visitor"
NOT_FOR_YOU = (
    "The records are for auditors, and people are managed by administrators. You have neither role in this tenant. "
    "Ask an administrator for it."
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who came in, and what they may do here. `superuser` manages people everywhere, `administers` its people."""

    actor: Actor | None
    member: Member | None
    audits: Tenant | None
    administers: Tenant | None
    superuser: bool

    @property
    def manages_people(self) -> bool:
        return self.superuser or self.administers is not None


def visitor_of(request: HttpRequest) -> Visitor:
    """Asked of the authority once for each request."""
    known: Visitor | None = getattr(request, REMEMBERED, None)
    if known is None:
        known = _visitor(request)
        setattr(request, REMEMBERED, known)
    return known


def _visitor(request: HttpRequest) -> Visitor:
    actor, member = actor_for(request), member_for(request)
    tenant = member.tenant if member is not None else None
    return Visitor(
        actor,
        member,
        audits=tenant if tenant is not None and permits(actor, "audit", tenant) else None,
        administers=tenant if tenant is not None and permits(actor, "manage_people", tenant) else None,
        superuser=permits(actor, "manage_people", None),
    )


def permits(actor: Actor | None, action: str, obj: Any) -> bool:
    if actor is None:
        return False
    try:
        authority.require(actor, action, obj)
    except NotPermitted:
        return False
    return True


class ReviewSite(AuditSite):
    site_title = site_header = "Cayu"
    index_title = "Records"

    def audited_tenant(self, request: HttpRequest) -> Tenant | None:
        return visitor_of(request).audits

    def sees_deployment(self, request: HttpRequest) -> bool:
        return visitor_of(request).superuser

    def has_permission(self, request: HttpRequest) -> bool:
        visitor = visitor_of(request)
        return visitor.audits is not None or visitor.manages_people

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        visitor = visitor_of(request)
        return {
            **super().each_context(request),
            "member": visitor.member,
            "audits": visitor.audits,
            "now": timezone.now(),
        }

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """There is one sign-in, which settles the tenant. Who is signed in and may not enter is told so."""
        wanted = request.GET.get("next", "")
        if not url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure()):
            wanted = reverse("admin:index")
        if not request.user.is_authenticated:
            return redirect_to_login(wanted, settings.LOGIN_URL)
        if self.has_permission(request):
            return redirect(wanted)
        member = visitor_of(request).member
        if member is None:
            return render(request, "review/no_membership.html", status=403)
        return page(request, member, "review/refused.html", {"refusal": NotPermitted(NOT_FOR_YOU)}, 403)
