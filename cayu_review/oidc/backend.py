from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import requests
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest
from django.utils import timezone
from mozilla_django_oidc.auth import OIDCAuthenticationBackend

from cayu_runtime.contracts import Actor
from cayu_runtime.errors import CayuError

from ..selectors.membership import PERSON
from ..services.identity import admit_identity
from ..services.membership import apply_claims
from ..sign_in import record_refusal
from .mapping import wanted_roles
from .provider import SECONDS, Provider, find_provider
from .refusal import SignInRefused, broken
from .token import Claims, judge_id_token, judge_signed_user_info, judge_user_info, refused, signed_in_at

OIDC = "oidc"
EVIDENCE = "_cayu_oidc"
SWITCHED_OFF = "Your account is switched off here. Ask an administrator to switch it on."


@dataclass(frozen=True, slots=True)
class Evidence:
    """What came with a sign-in: the ID token, for a sign-out there, and when the person proved who they are."""

    id_token: str
    authenticated_at: datetime | None


def evidence_of(request: HttpRequest) -> Evidence:
    """Of the sign-in that this request has just brought to its end."""
    found: Evidence = getattr(request, EVIDENCE)
    return found


def library_setting(name: str, *default: Any) -> Any:
    """What mozilla-django-oidc looks up in Django's settings: PKCE and nonce always, the rest from ours."""
    ours = {
        "OIDC_USE_PKCE": True,
        "OIDC_PKCE_CODE_CHALLENGE_METHOD": "S256",
        "OIDC_USE_NONCE": True,
        "OIDC_TIMEOUT": SECONDS,
        "OIDC_AUTHENTICATION_CALLBACK_URL": "oidc-callback",
        "OIDC_RP_SCOPES": settings.CAYU_OIDC_SCOPES,
    }
    return ours.get(name, default[0] if default else None)


class OidcBackend(OIDCAuthenticationBackend):
    """Who the provider says it is: found by issuer and subject alone, never by e-mail or name.

    Whatever is wrong with what the provider sends is a SignInRefused.
    """

    provider: Provider
    request: HttpRequest
    id_token: str

    def __init__(self) -> None:
        """Asks nobody anything: Django makes one with each request of somebody who is signed in."""
        self.UserModel = get_user_model()

    def authenticate(self, request: HttpRequest, nonce: str, code_verifier: str) -> AbstractBaseUser | None:
        """The code of the request for a token, the token for a person. Their roles are as claimed when this returns."""
        self.provider = provider = find_provider()
        self.OIDC_OP_TOKEN_ENDPOINT, self.OIDC_OP_USER_ENDPOINT = provider.token, provider.userinfo
        self.OIDC_RP_CLIENT_ID, self.OIDC_RP_CLIENT_SECRET = provider.client_id, provider.client_secret
        user: AbstractBaseUser | None = super().authenticate(request, nonce=nonce, code_verifier=code_verifier)
        return user

    def get_user(self, user_id: Any) -> AbstractBaseUser | None:
        """None for an account that was switched off: it is out at the next request. The library would let it stay."""
        return ModelBackend.get_user(self, user_id)

    def get_settings(self, name: str, *default: Any) -> Any:
        if name == "OIDC_TOKEN_USE_BASIC_AUTH":
            return self.provider.secret_in_header
        return library_setting(name, *default)

    def get_token(self, payload: dict[str, Any]) -> dict[str, Any]:
        """A code that was used, a wrong verifier, a wrong secret: the provider refuses, and says it here."""
        try:
            answer = super().get_token(payload)
        except (requests.RequestException, ValueError) as problem:
            response = getattr(problem, "response", None)
            if response is not None and response.status_code in (400, 401):
                raise refused("code_refused") from None
            raise broken("token_failed", problem) from None
        if not isinstance(answer, dict):
            raise broken("token_failed")
        return answer

    def verify_token(self, token: Any, **kwargs: Any) -> Claims:
        """The library asks with a nonce for the ID token, and without one for a signed answer about the person."""
        if "nonce" in kwargs:
            return judge_id_token(token, self.provider, kwargs["nonce"])
        return judge_signed_user_info(token, self.provider)

    def store_tokens(self, access_token: Any, id_token: str) -> None:
        """Kept for this sign-in; whether it goes into the web session, the view says."""
        self.id_token = id_token

    def get_userinfo(self, access_token: Any, id_token: str, payload: Claims) -> Claims:
        try:
            answer = super().get_userinfo(access_token, id_token, payload)
        except (requests.RequestException, ValueError) as problem:
            raise broken("userinfo_failed", problem) from None
        return judge_user_info(answer, payload)

    def get_or_create_user(self, access_token: Any, id_token: str, payload: Claims) -> AbstractBaseUser:
        """The account, with its roles as the claims say now. SignInRefused for one that is switched off."""
        told = self.get_userinfo(access_token, id_token, payload) if self.provider.userinfo else {}
        claims = {**told, **payload}
        # Whether the address is verified, who named it must say; one that is not gives no role either.
        claims["email_verified"] = (payload if "email" in payload else told).get("email_verified")
        if claims["email_verified"] is not True:
            claims.pop("email", None)
        setattr(self.request, EVIDENCE, Evidence(self.id_token, signed_in_at(payload, timezone.now())))
        try:
            user = admit_identity(self.provider.issuer, payload["sub"], claims)
            if not user.is_active:
                record_refusal(user.get_username(), OIDC, "the account is switched off")
                raise SignInRefused("account_off", SWITCHED_OFF)
            actor = Actor(f"{PERSON}{user.pk}", user.get_username(), None, "web")
            apply_claims(user, wanted_roles(claims), actor)
        except SignInRefused:
            raise
        except CayuError as problem:
            raise SignInRefused(problem.code, problem.message) from None
        return user
