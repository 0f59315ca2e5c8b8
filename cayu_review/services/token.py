from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import DateTimeField, ExpressionWrapper
from django.db.models.functions import Now

from cayu_runtime import authority
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import InvalidRequest, NotFound
from cayu_runtime.models import Tenant
from cayu_runtime.selectors.grant import has_live_grant
from cayu_runtime.services.audit import audited

from ..models import ApiToken
from ..models.token import SCOPES
from ..selectors.membership import PERSON, roles_of
from ..selectors.token import digest_of

PREFIX = "cayu_"
MAX_DAYS = 366


def create_token(
    tenant: Tenant,
    name: str,
    on_behalf_of: AbstractBaseUser,
    scopes: Iterable[str],
    days: int,
    actor: Actor | None = None,
) -> tuple[ApiToken, str]:
    """Make a token for an agent client. Returns it with its text, which is kept nowhere and shown this once.

    `on_behalf_of` is the person whose requests the token's are; who by four eyes can't approve them. `actor` is who
    makes it; None is an operator at a shell. InvalidRequest says what is wrong; NotPermitted by the authority.
    """
    if actor is not None:
        authority.require(actor, "create_token", tenant)
    wanted = set(scopes)
    if not wanted or not wanted <= set(SCOPES):
        raise InvalidRequest(f"A token has one scope or more of: {', '.join(SCOPES)}.")
    if not 1 <= days <= MAX_DAYS:
        raise InvalidRequest(f"A token is valid for 1 to {MAX_DAYS} days.")
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise InvalidRequest(
            "Name the token after the client that will send it, with 1 to 100 characters that can be seen."
        )
    if not roles_of(tenant.id, f"{PERSON}{on_behalf_of.pk}"):
        raise InvalidRequest(
            f"{on_behalf_of.get_username()} has no role in {tenant.slug}. Grant one first: manage.py grantrole "
            f"{on_behalf_of.get_username()} {tenant.slug} viewer"
        )
    if actor is not None and actor.subject != f"{PERSON}{on_behalf_of.pk}" and has_live_grant(tenant, actor.subject):
        raise InvalidRequest(
            "You made a standing grant that lives, so a token in somebody else's name would ask for what you granted. "
            "Take the grant back, or leave the token to another administrator."
        )
    text = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken(
        tenant=tenant,
        name=name.strip(),
        digest=digest_of(text),
        scopes=" ".join(scope for scope in SCOPES if scope in wanted),
        on_behalf_of_id=on_behalf_of.pk,
        created_by=actor.subject if actor else "shell",
        expires_at=ExpressionWrapper(Now() + timedelta(days=days), output_field=DateTimeField()),
    )
    with audited(tenant.pk) as trail:
        token.save(force_insert=True)
        token.refresh_from_db()
        trail.record(
            "token.created",
            actor,
            token=str(token.pk),
            name=token.name,
            scopes=token.scopes,
            on_behalf_of=f"{PERSON}{on_behalf_of.pk}",
            expires_at=token.expires_at.isoformat(),
        )
    return token, text


def revoke_token(token_id: UUID, actor: Actor | None = None) -> ApiToken:
    """End a token now. One that was ended already stays as it is. NotFound; NotPermitted by the authority."""
    token = ApiToken.objects.select_related("tenant").filter(pk=token_id).first()
    if token is None:
        raise NotFound("There is no such token.")
    if actor is not None:
        authority.require(actor, "revoke_token", token.tenant)
    with audited(token.tenant.pk) as trail:
        if ApiToken.objects.filter(pk=token_id, revoked_at=None).update(revoked_at=Now()):
            trail.record("token.revoked", actor, token=str(token.pk), name=token.name)
    token.refresh_from_db()
    return token
