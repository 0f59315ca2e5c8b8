from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser

from cayu_runtime import authority
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import InvalidRequest
from cayu_runtime.models import Tenant

from ..models import Membership
from ..models.membership import ROLES


def grant_role(user: AbstractBaseUser, tenant: Tenant, role: str, actor: Actor | None = None) -> bool:
    """Give a person a role in a tenant. True when it is new; a role already held is left as it is.

    `actor` is who grants it; None is an operator at a shell. InvalidRequest for an unknown role or an account that is
    switched off; NotPermitted by the authority.
    """
    if actor is not None:
        authority.require(actor, "grant_role", tenant)
    if role not in ROLES:
        raise InvalidRequest(f"There is no role {role!r}. The roles are: {', '.join(ROLES)}.")
    if not user.is_active:
        raise InvalidRequest(
            f"The account {user.get_username()!r} is switched off. Switch it on before giving it a role."
        )
    _, created = Membership.objects.get_or_create(user_id=user.pk, tenant=tenant, role=role)
    return created


def revoke_role(user: AbstractBaseUser, tenant: Tenant, role: str, actor: Actor | None = None) -> bool:
    """Take a role in a tenant from a person. True when they held it; it ends at once, also for open pages.

    `actor` is who takes it; None is an operator at a shell. NotPermitted by the authority.
    """
    if actor is not None:
        authority.require(actor, "revoke_role", tenant)
    removed, _ = Membership.objects.filter(user_id=user.pk, tenant=tenant, role=role).delete()
    return removed > 0
