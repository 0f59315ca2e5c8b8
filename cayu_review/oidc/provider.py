from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.conf import settings

from .refusal import SignInRefused, broken

# What `CAYU_OIDC_ENDPOINTS` may name, and how the discovery document calls it.
ENDPOINTS = {
    "authorization": "authorization_endpoint",
    "token": "token_endpoint",
    "jwks": "jwks_uri",
    "userinfo": "userinfo_endpoint",
    "end_session": "end_session_endpoint",
}
NEEDED = ("authorization", "token", "jwks")
SECONDS = 10.0
KEPT_SECONDS = 3600.0
MAX_DOCUMENT = 256 * 1024

_documents: dict[str, tuple[float, Mapping[str, Any]]] = {}


@dataclass(frozen=True, slots=True)
class Provider:
    """The configured provider. An endpoint that it does not have is empty: `userinfo` and `end_session` may be."""

    issuer: str
    client_id: str
    client_secret: str
    name: str
    authorization: str
    token: str
    jwks: str
    userinfo: str
    end_session: str
    secret_in_header: bool


def is_configured() -> bool:
    return bool(settings.CAYU_OIDC_ISSUER)


def name_of_provider() -> str:
    """What people call it: CAYU_OIDC_NAME, else its host."""
    return settings.CAYU_OIDC_NAME or urlsplit(settings.CAYU_OIDC_ISSUER).hostname or settings.CAYU_OIDC_ISSUER


def given_endpoints() -> dict[str, str]:
    """CAYU_OIDC_ENDPOINTS. ValueError says what is wrong with it; the check cayu.E009 shows it at start."""
    if not settings.CAYU_OIDC_ENDPOINTS:
        return {}
    given = json.loads(settings.CAYU_OIDC_ENDPOINTS)
    if not isinstance(given, dict) or not all(isinstance(url, str) for url in given.values()):
        raise ValueError('it is no JSON object of addresses, like {"jwks": "https://…"}')
    unknown = sorted(set(given) - set(ENDPOINTS))
    if unknown:
        raise ValueError(f"it names {', '.join(unknown)}; an endpoint is one of {', '.join(ENDPOINTS)}")
    if not all(urlsplit(url).scheme in ("https", "http") for url in given.values()):
        raise ValueError("one of its addresses is none")
    return given


def find_provider() -> Provider:
    """Endpoints as given, else from the issuer's discovery document, which is kept for an hour in each process.

    Asks the network, for SECONDS at most; never call it inside a transaction. SignInRefused if it does not answer, or
    is another issuer than the one that is configured.
    """
    given = given_endpoints()
    document: Mapping[str, Any] = {}
    if not all(given.get(name) for name in NEEDED):
        document = _discover(settings.CAYU_OIDC_ISSUER)
    found = {name: given.get(name) or str(document.get(entry) or "") for name, entry in ENDPOINTS.items()}
    missing = [name for name in NEEDED if not found[name]]
    if missing:
        raise broken("endpoint_missing")
    scheme = urlsplit(settings.CAYU_OIDC_ISSUER).scheme
    if any(url and urlsplit(url).scheme not in {"https", scheme} for url in found.values()):
        raise broken("endpoint_unsafe")
    methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_post" if given else ""]
    return Provider(
        issuer=settings.CAYU_OIDC_ISSUER,
        client_id=settings.CAYU_OIDC_CLIENT_ID,
        client_secret=settings.CAYU_OIDC_CLIENT_SECRET,
        name=name_of_provider(),
        secret_in_header="client_secret_post" not in methods,
        **found,
    )


def fetch_json(url: str, code: str) -> Mapping[str, Any]:
    """A JSON object of the provider's, within SECONDS and MAX_DOCUMENT. SignInRefused under `code` if it is none."""
    try:
        with httpx.stream("GET", url, timeout=SECONDS, follow_redirects=False) as response:
            response.raise_for_status()
            deadline, body = time.monotonic() + SECONDS, b""
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_DOCUMENT or time.monotonic() > deadline:
                    raise broken(code)
        read = json.loads(body)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as problem:
        raise broken(code, problem) from None
    if not isinstance(read, dict):
        raise broken(code)
    return read


def forget_documents() -> None:
    """Ask again at the next sign-in."""
    _documents.clear()


def _discover(issuer: str) -> Mapping[str, Any]:
    kept_at, document = _documents.get(issuer, (0.0, {}))
    if document and time.monotonic() - kept_at < KEPT_SECONDS:
        return document
    document = fetch_json(issuer.rstrip("/") + "/.well-known/openid-configuration", "discovery_failed")
    if document.get("issuer") != issuer:
        raise SignInRefused(
            "wrong_issuer",
            "The identity provider is another issuer than the one that is configured. An administrator must set "
            "CAYU_OIDC_ISSUER to exactly what it calls itself.",
        )
    _documents[issuer] = time.monotonic(), document
    return document
