from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from cayu_runtime.contracts import Actor
from cayu_runtime.http.caller import Caller

from ..models import ApiToken
from ..selectors.membership import PERSON
from ..selectors.token import TOKEN, find_live_token

SCHEME = "Bearer"


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer cayu_…`. Whoever sends this header is judged by it alone, not by a cookie beside it."""

    def authenticate(self, request: Request) -> tuple[AnonymousUser, Caller] | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, text = header.partition(" ")
        token = find_live_token(text.strip()) if scheme.lower() == SCHEME.lower() else None
        if token is None:
            raise AuthenticationFailed(
                "This token is unknown, expired or revoked. Send 'Authorization: Bearer cayu_…'."
            )
        return AnonymousUser(), Caller(_actor(token), token.tenant, is_person=False)

    def authenticate_header(self, request: Request) -> str:
        return f'{SCHEME} realm="cayu"'


def _actor(token: ApiToken) -> Actor:
    person = token.on_behalf_of
    return Actor(
        subject=f"{TOKEN}{token.pk}",
        name=token.name,
        tenant=token.tenant_id,
        source="api",
        on_behalf_of=f"{PERSON}{person.pk}",
        on_behalf_of_name=(person.get_full_name() or person.get_username())[:200],
    )
