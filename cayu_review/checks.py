"""System checks of sign-in. Each says what is wrong and, as its hint, what to do.

cayu.E009  sign-in is not set up whole
cayu.W003  a rule of CAYU_OIDC_ROLES cannot be used
cayu.W004  CAYU_OIDC_ROLES names an unknown tenant
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.db import DatabaseError, InterfaceError

from .models.identity import MAX_TEXT
from .oidc.mapping import rules, unknown_tenants
from .oidc.provider import given_endpoints

LOCAL_ISSUERS = frozenset({"localhost", "127.0.0.1", "::1"})
OIDC_SETTINGS = ("CAYU_OIDC_CLIENT_ID", "CAYU_OIDC_CLIENT_SECRET", "CAYU_OIDC_ROLES", "CAYU_OIDC_ENDPOINTS")


def check_sign_in(**kwargs: Any) -> Iterator[checks.CheckMessage]:
    """By an identity provider: all of what it takes or nothing; and somebody must be able to sign in at all."""
    for problem, hint in _sign_in_problems():
        yield checks.Error(
            f"Sign-in is not set up whole: {problem}.", hint=f"{hint} See docs/sign-in.md.", id="cayu.E009"
        )


def _sign_in_problems() -> Iterator[tuple[str, str]]:
    given = [name for name in OIDC_SETTINGS if getattr(settings, name)]
    if not settings.CAYU_OIDC_ISSUER:
        if given:
            yield f"{given[0]} is set and CAYU_OIDC_ISSUER is not", "Set CAYU_OIDC_ISSUER, or unset the others."
        if not settings.CAYU_PASSWORDS:
            yield (
                "CAYU_PASSWORDS is off, and no identity provider is named",
                "Set CAYU_OIDC_ISSUER or CAYU_PASSWORDS=1.",
            )
        return
    for name in ("CAYU_OIDC_CLIENT_ID", "CAYU_OIDC_CLIENT_SECRET"):
        if not getattr(settings, name):
            yield f"{name} is missing", f"Set {name} to what the provider gave you for this application."
    issuer = urlsplit(settings.CAYU_OIDC_ISSUER)
    local = issuer.scheme == "http" and issuer.hostname in LOCAL_ISSUERS
    if not (issuer.scheme == "https" or local) or not issuer.hostname or len(settings.CAYU_OIDC_ISSUER) > MAX_TEXT:
        yield "CAYU_OIDC_ISSUER is no https address", "Set it to exactly what the provider calls its issuer."
    if "openid" not in settings.CAYU_OIDC_SCOPES.split():
        yield "CAYU_OIDC_SCOPES lacks openid", 'Set it to "openid profile email" and what your roles need.'
    try:
        given_endpoints()
    except ValueError as problem:
        yield f"CAYU_OIDC_ENDPOINTS cannot be used: {problem}", "Give it as one JSON object, or unset it."


def check_role_rules(**kwargs: Any) -> Iterator[checks.CheckMessage]:
    """A rule that can't be used gives nothing, and nobody is kept from signing in by it."""
    for problem in rules()[1]:
        yield checks.Warning(
            f"CAYU_OIDC_ROLES: {problem}",
            hint='Give a list of rules: [{"claim": "groups", "value": "…", "tenant": "…", "role": "viewer"}]. '
            "See docs/sign-in.md.",
            id="cayu.W003",
        )


def check_role_tenants(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> Iterator[checks.CheckMessage]:
    if "default" not in (databases or ()):
        return
    try:
        unknown = list(unknown_tenants())
    except (DatabaseError, InterfaceError):
        return
    for slug in unknown:
        yield checks.Warning(
            f"CAYU_OIDC_ROLES names the tenant {slug!r}, which does not exist: its rules give nothing.",
            hint=f"Make it (manage.py createtenant {slug}), or correct the rule.",
            id="cayu.W004",
        )


def register_checks() -> None:
    checks.register(check_sign_in, checks.Tags.security)
    checks.register(check_role_rules, checks.Tags.security)
    checks.register(check_role_tenants, checks.Tags.database)
