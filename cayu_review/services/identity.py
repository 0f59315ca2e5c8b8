from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from cayu_runtime.errors import Conflict

from ..models import Identity
from ..selectors.identity import find_identity

MAX_NAME = 150


def admit_identity(issuer: str, subject: str, claims: Mapping[str, Any]) -> AbstractBaseUser:
    """The account of this issuer's subject, which is made if there is none. Nothing but these two leads to an account.

    A new account has no password and no role, and a name that nobody can choose. The displayed name follows the claims.
    The account may be switched off: who signs people in asks. Conflict if an account of another kind has its name.
    """
    identity = find_identity(issuer, subject)
    if identity is None:
        identity = _new_identity(issuer, subject)
    _keep(identity, claims)
    return identity.user


def name_of_account(issuer: str, subject: str) -> str:
    """The same for the same two, and for no others: 130 bits of a digest of both."""
    digest = hashlib.sha256(f"{len(issuer)} {issuer}{subject}".encode()).digest()
    return f"oidc-{base64.b32encode(digest).decode()[:26].lower()}"


def _new_identity(issuer: str, subject: str) -> Identity:
    people, name = get_user_model(), name_of_account(issuer, subject)
    try:
        with transaction.atomic():
            user = people(**{people.USERNAME_FIELD: name})
            user.set_unusable_password()
            user.save(force_insert=True)
            return Identity.objects.create(issuer=issuer, subject=subject, user=user)
    except IntegrityError:
        # Another sign-in of the same person came first; or the name is taken, and then nothing is taken over.
        found = find_identity(issuer, subject)
        if found is None:
            raise Conflict(
                f"There is an account {name!r} that does not belong to this sign-in. Ask an administrator to rename it."
            ) from None
        return found


def _keep(identity: Identity, claims: Mapping[str, Any]) -> None:
    """What is shown of the person: names, and an e-mail address that the provider verified."""
    email = _email(claims)
    if identity.email != email:
        identity.email = email
        identity.save(update_fields=["email"])
    first, last = _text(claims.get("given_name")), _text(claims.get("family_name"))
    if not (first and last):
        first, last = _text(claims.get("name")) or first or _text(claims.get("preferred_username")), ""
    user: Any = identity.user
    if first and (user.first_name, user.last_name) != (first, last):
        user.first_name, user.last_name = first, last
        user.save(update_fields=["first_name", "last_name"])


def _email(claims: Mapping[str, Any]) -> str:
    email = claims.get("email")
    if claims.get("email_verified") is not True or not isinstance(email, str) or len(email) > 254:
        return ""
    try:
        validate_email(email)
    except ValidationError:
        return ""
    return email


def _text(value: Any) -> str:
    """A name that fits: no control characters, no surrogates, one line."""
    if not isinstance(value, str):
        return ""
    return " ".join("".join(c for c in value[:1000] if c.isprintable()).split())[:MAX_NAME].strip()
