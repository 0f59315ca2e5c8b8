from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from ..contracts import Actor
from ..models import Tenant


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, as an authentication class established it, and the one tenant it is about.

    It stands in `request.auth`. `is_person`: signed in, with a web session; otherwise an agent client with a token.
    """

    actor: Actor
    tenant: Tenant
    is_person: bool


class HasCaller(BasePermission):
    """Somebody is there: a valid token, or a person with a role. What they may do, the services ask the authority."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return isinstance(request.auth, Caller)
