"""What the provider signed: each claim is checked here, as mozilla-django-oidc checks neither issuer nor audience."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import jwt
import structlog
from django.utils.crypto import constant_time_compare
from jwt.exceptions import InvalidSubjectError

from ..models.identity import MAX_TEXT
from .provider import Provider, fetch_json
from .refusal import SignInRefused

log = structlog.get_logger(__name__)

Claims = dict[str, Any]

# Signatures by a private key of the provider. `none`, and HS*, whose key every client holds, are never taken.
ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
LEEWAY_SECONDS = 60
MAX_TOKEN = 64 * 1024

SENTENCES: dict[str, str] = {
    "no_token": "The identity provider sent no token that can be read.",
    "wrong_algorithm": "The identity provider's token is not signed in a way that is accepted here.",
    "unknown_key": "The identity provider's token is signed with a key that the provider does not publish.",
    "wrong_signature": "The signature of the identity provider's token does not fit.",
    "wrong_issuer": "The token comes from another identity provider than the one that is set up here.",
    "wrong_audience": "The token was made for another application.",
    "wrong_party": "The token was given to another application.",
    "expired": "The token had expired when it came. If this stays so, the clocks of the two systems differ.",
    "not_yet_valid": "The token is not valid yet. If this stays so, the clocks of the two systems differ.",
    "claim_missing": "The identity provider's token lacks something that it must say.",
    "wrong_nonce": "The token does not belong to the sign-in that was begun in this browser.",
    "unusable_subject": "The token does not say who you are in a way that can be kept.",
    "wrong_subject": "The identity provider's two answers are about different people.",
    "code_refused": "The identity provider did not accept the way back from it: it was used before, or is too old.",
}


def refused(code: str, problem: BaseException | None = None) -> SignInRefused:
    """A check failed. Which one is logged; nothing of the token is."""
    log.warning("oidc.token_refused", code=code, problem=type(problem).__name__ if problem else "")
    return SignInRefused(code, f"{SENTENCES[code]} You are not signed in by it. Try once more.")


# The order matters: the first kind that a problem is an instance of says why.
PROBLEMS: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "expired"),
    (jwt.ImmatureSignatureError, "not_yet_valid"),
    (jwt.InvalidIssuerError, "wrong_issuer"),
    (jwt.InvalidAudienceError, "wrong_audience"),
    (jwt.MissingRequiredClaimError, "claim_missing"),
    (jwt.InvalidAlgorithmError, "wrong_algorithm"),
    (jwt.InvalidSignatureError, "wrong_signature"),
    (InvalidSubjectError, "unusable_subject"),
    (Exception, "no_token"),
)


def judge_id_token(token: Any, provider: Provider, nonce: str) -> Claims:
    """The claims of an ID token of this provider, for this client, of the sign-in with this nonce; now, and whole.

    SignInRefused names the first check that fails (OpenID Connect Core 1.0, 3.1.3.7).
    """
    claims = _verified(token, provider, required=("iss", "sub", "aud", "exp", "iat", "nonce"))
    audience, party = claims["aud"], claims.get("azp")
    several = isinstance(audience, list) and len(audience) > 1
    if party != provider.client_id and (several or party is not None):
        raise refused("wrong_party")
    if not isinstance(claims["nonce"], str) or not nonce or not constant_time_compare(claims["nonce"], nonce):
        raise refused("wrong_nonce")
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_TEXT or not subject.isprintable():
        raise refused("unusable_subject")
    return claims


def judge_user_info(answer: Any, claims: Claims) -> Claims:
    """What the provider says of the same person, and of nobody else: `sub` must be there and equal the token's."""
    if not isinstance(answer, dict) or answer.get("sub") != claims["sub"]:
        raise refused("wrong_subject")
    return answer


def judge_signed_user_info(token: Any, provider: Provider) -> Claims:
    """The same answer as a signed token. Signed by the provider; for this client, where it says for whom."""
    return _verified(token, provider, required=("iss", "sub"))


def signed_in_at(claims: Claims, now: datetime) -> datetime | None:
    """When the person last proved to the provider who they are; None if it does not say. Never later than `now`."""
    said = claims.get("auth_time")
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    try:
        moment = datetime.fromtimestamp(said, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    if (moment - now).total_seconds() > LEEWAY_SECONDS:
        raise refused("not_yet_valid")
    return min(moment, now)


def _verified(token: Any, provider: Provider, required: Iterable[str]) -> Claims:
    if not isinstance(token, str) or len(token) > MAX_TOKEN:
        raise refused("no_token")
    required = list(required)
    try:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise refused("wrong_algorithm")
        key = _key_for(header, algorithm, fetch_json(provider.jwks, "keys_failed"))
        claims: Claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=provider.issuer,
            audience=provider.client_id,
            leeway=LEEWAY_SECONDS,
            options={"require": required, "verify_aud": "aud" in required},
        )
    except SignInRefused:
        raise
    except Exception as problem:  # a token is input: whatever its parts do to a parser, it is refused
        code = next(code for kind, code in PROBLEMS if isinstance(problem, kind))
        raise refused(code, problem) from None
    if "aud" in claims and provider.client_id not in _listed(claims["aud"]):
        raise refused("wrong_audience")
    return claims


def _listed(audience: Any) -> list[Any]:
    return audience if isinstance(audience, list) else [audience]


def _key_for(header: Mapping[str, Any], algorithm: str, published: Mapping[str, Any]) -> jwt.PyJWK:
    """The published key that the token names. Without a name it must be the only one that could have signed it."""
    keys = published.get("keys")
    named, fitting = header.get("kid"), []
    for key in keys if isinstance(keys, list) else []:
        if not isinstance(key, dict) or key.get("kty") == "oct" or key.get("use", "sig") != "sig":
            continue
        if key.get("alg", algorithm) != algorithm or (named is not None and key.get("kid") != named):
            continue
        try:
            fitting.append(jwt.PyJWK(key, algorithm))
        except jwt.PyJWTError:
            continue
    if len(fitting) != 1:
        raise refused("unknown_key")
    return fitting[0]
