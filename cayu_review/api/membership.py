from __future__ import annotations

from typing import Any

from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from cayu_runtime.errors import NotPermitted
from cayu_runtime.http.caller import Caller

from ..actors import member_for
from ..permissions import NO_ROLE


class MembershipAuthentication(SessionAuthentication):
    """A signed-in person in their active tenant. What changes anything needs the CSRF token of their web session."""

    def authenticate(self, request: Request) -> tuple[Any, Caller] | None:
        user = request._request.user
        if not user.is_authenticated or not user.is_active:
            return None
        self.enforce_csrf(request)
        member = member_for(request._request)
        if member is None:
            raise NotPermitted(NO_ROLE.reason)
        return user, Caller(member.actor, member.tenant, is_person=True)

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied:
            raise NotPermitted(
                "The CSRF token is missing or does not fit. Send the one of your web session as X-CSRFToken.",
                code="csrf_failed",
            ) from None
