"""Sign-in by password, and how often it may fail: counted per account and per address, in the database.

An attempt is counted before its password is looked at, so that many at once do not get past the limit, and taken back
when it succeeds. A name is counted whether or not there is such an account, so that nothing is learnt from it. Each
count is a row of the web sessions' table under a key that nobody can know without SECRET_KEY; it ends by itself.

What became of it stands on the audit chain of the person's tenants.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from cayu_runtime.contracts import Actor
from cayu_runtime.services.audit import record

from .oidc.provider import is_configured, name_of_provider
from .selectors.membership import PERSON, memberships_of

WINDOW = timedelta(minutes=15)
FAILURES_OF_ACCOUNT = 10
FAILURES_OF_ADDRESS = 50
NOBODY = "anonymous"
AUTHENTICATED_AT = "cayu_authenticated_at"


class PasswordBackend(ModelBackend):
    """Django's, throttled. At the limit nobody gets in by password, and no other backend is asked."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **fields: Any
    ) -> Any:
        if username is None or password is None:
            return super().authenticate(request, username, password, **fields)
        if admit(username, address_of(request)) is not None:
            raise PermissionDenied
        user = super().authenticate(request, username, password, **fields)
        if user is not None:
            take_back(username, address_of(request))
        return user


def address_of(request: HttpRequest | None) -> str:
    """Where a request comes from, as it is counted: an IPv6 network of 64 bits is one place. Empty if unknown."""
    try:
        address = ip_address(request.META.get("REMOTE_ADDR", "") if request else "")
    except ValueError:
        return ""
    return str(ip_network((address, 64), strict=False) if isinstance(address, IPv6Address) else address)


def blocked_until(name: str, address: str) -> datetime | None:
    """Until when no password is looked at for this name or from this address; None if one would be."""
    now = timezone.now()
    limits = dict(_counted(name, address))
    rows = Session.objects.filter(session_key__in=limits, expire_date__gt=now)
    return max((row.expire_date for row in rows if _failures(row) >= limits[row.session_key]), default=None)


def admit(name: str, address: str) -> datetime | None:
    """Count an attempt; at a limit nothing is counted, and the answer is until when."""
    with transaction.atomic():
        now = timezone.now()
        held = [(_locked(key, now), limit) for key, limit in _counted(name, address)]
        full = [row.expire_date for row, limit in held if _failures(row) >= limit]
        if full:
            return max(full)
        for row, _ in held:
            _store(row, _failures(row) + 1)
    return None


def take_back(name: str, address: str) -> None:
    """The attempt succeeded: it was no failure, and those of the account before it are forgotten."""
    with transaction.atomic():
        now = timezone.now()
        for index, (key, _) in enumerate(_counted(name, address)):
            row = _locked(key, now)
            _store(row, 0 if index == 0 else max(0, _failures(row) - 1))


def _counted(name: str, address: str) -> Iterator[tuple[str, int]]:
    """The keys of an attempt with their limits, the account's first: always locked in this order."""
    yield _key("account", unicodedata.normalize("NFKC", name).casefold()), FAILURES_OF_ACCOUNT
    if address:
        yield _key("address", address), FAILURES_OF_ADDRESS


def _key(kind: str, value: str) -> str:
    return salted_hmac("cayu_review.sign_in", f"{kind} {value}", algorithm="sha256").hexdigest()[:40]


def _locked(key: str, now: datetime) -> Session:
    """The row of a count, locked; its time begins anew once it is over."""
    none, end = SessionStore().encode({"failures": 0}), now + WINDOW
    fresh = {"session_data": none, "expire_date": end}
    row, _ = Session.objects.select_for_update().get_or_create(session_key=key, defaults=fresh)
    if row.expire_date <= now:
        row.session_data, row.expire_date = none, end
    return row


def _failures(row: Session) -> int:
    return int(SessionStore().decode(row.session_data).get("failures", 0))


def _store(row: Session, failures: int) -> None:
    row.session_data = SessionStore().encode({"failures": failures})
    row.save(update_fields=["session_data", "expire_date"])


def ways_in() -> dict[str, Any]:
    """What the sign-in form offers: the identity provider by name, if one is set up, and passwords unless off."""
    return {"provider": name_of_provider() if is_configured() else "", "passwords": settings.CAYU_PASSWORDS}


def mark_sign_in(request: HttpRequest, moment: datetime | None) -> None:
    """When the person of this web session last proved who they are. None: nobody said."""
    request.session[AUTHENTICATED_AT] = moment.isoformat() if moment is not None else None


def authenticated_at(request: HttpRequest) -> datetime | None:
    said = request.session.get(AUTHENTICATED_AT)
    return datetime.fromisoformat(said) if said else None


def record_sign_in(actor: Actor, how: str) -> None:
    """Put a sign-in on the chain of the tenant that it leads into. Without any role it leads into none, and is not."""
    if isinstance(actor.tenant, UUID):
        record(actor.tenant, "sign_in.succeeded", actor, how=how)


def record_sign_out(actor: Actor) -> None:
    """The same for a sign-out."""
    if isinstance(actor.tenant, UUID):
        record(actor.tenant, "sign_in.ended", actor)


def record_refusal(name: str, how: str, why: str) -> None:
    """Put a refused sign-in on the chains of the tenants in which the account with this name holds a role now.

    For an unknown name there is none. Who asked is not known, so the entry's actor is nobody.
    """
    model = get_user_model()
    person = None if "\0" in name else model.objects.filter(**{model.USERNAME_FIELD: name}).first()
    if person is None:
        return
    for tenant in {held.tenant_id for held in memberships_of(person)}:
        somebody = Actor(NOBODY, "somebody", tenant, "web")
        record(tenant, "sign_in.refused", somebody, person=f"{PERSON}{person.pk}", how=how, why=why)
