from __future__ import annotations

import hashlib
from datetime import datetime
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from cayu_runtime.errors import NotFound
from cayu_runtime.models import Tenant

from ..models import ApiToken
from .membership import PERSON, key_of

TOKEN = "token:"  # noqa: S105  how the subject of a token begins


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _live() -> Q:
    """Neither revoked nor over, by the database's clock, and its person's account is switched on."""
    return Q(revoked_at=None, expires_at__gt=Now(), on_behalf_of__is_active=True)


def find_live_token(text: str) -> ApiToken | None:
    """The token that this text is, with its tenant and person, if it is live."""
    rows = ApiToken.objects.select_related("tenant", "on_behalf_of")
    return rows.filter(_live(), digest=digest_of(text)).first()


def newest_tokens(tenant: Tenant, before: tuple[datetime, UUID] | None, limit: int) -> list[ApiToken]:
    """The tokens of a tenant with their people, live and ended ones, the newest first, from after `before`."""
    rows = ApiToken.objects.filter(tenant=tenant).select_related("on_behalf_of")
    if before is not None:
        moment, key = before
        rows = rows.filter(Q(created_at__lt=moment) | Q(created_at=moment, pk__lt=key))
    return list(rows.order_by("-created_at", "-pk")[:limit])


def find_token(tenant: Tenant, token_id: UUID) -> ApiToken:
    """A token of this tenant. NotFound for any other."""
    row = ApiToken.objects.filter(tenant=tenant, pk=token_id).first()
    if row is None:
        raise NotFound("There is no such token.")
    return row


def made_token_for(tenant_id: UUID, maker: str, person: str = "") -> bool:
    """Whether `maker` ever made a token that asks in this other person's name here (empty: in anybody else's). Ended
    ones count: what they asked for may still wait.
    """
    made = ApiToken.objects.filter(tenant=tenant_id, created_by=maker)
    if not person:
        return made.exclude(on_behalf_of=key_of(maker)).exists()
    key = key_of(person) if maker != person else None
    return key is not None and made.filter(on_behalf_of=key).exists()


def scopes_of(tenant_id: UUID, subject: str, on_behalf_of: str) -> frozenset[str]:
    """The scopes that a live token of this tenant and person has at this moment. None for any other subject."""
    try:
        key = UUID(subject.removeprefix(TOKEN))
    except ValueError:
        return frozenset()
    row = ApiToken.objects.filter(_live(), pk=key, tenant=tenant_id).values_list("scopes", "on_behalf_of").first()
    if row is None or f"{PERSON}{row[1]}" != on_behalf_of:
        return frozenset()
    return frozenset(row[0].split())
