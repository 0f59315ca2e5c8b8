"""Who asks: a signed-in person in their active tenant.

The tenant is chosen at sign-in and kept in the web session; no URL and no request body of another page names it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest

from cayu_runtime.contracts import Actor
from cayu_runtime.models import Tenant

from .models import Membership
from .selectors.membership import PERSON, memberships_of
from .sign_in import authenticated_at

ACTIVE_TENANT = "cayu_tenant"
AT_THE_ADMIN = frozenset({"auditor", "administrator"})
GRANTING = frozenset({"approver", "administrator"})
STARTING = frozenset({"viewer", "approver"})


@dataclass(frozen=True, slots=True)
class Member:
    """A person in one tenant, with the roles held now, and all the tenants they can switch to."""

    actor: Actor
    tenant: Tenant
    tenants: tuple[Tenant, ...]

    @property
    def enters_admin(self) -> bool:
        """Whether the menu leads there. What is to be seen there, the authority says."""
        return self.actor.is_superuser or not AT_THE_ADMIN.isdisjoint(self.actor.roles)

    @property
    def administers(self) -> bool:
        """Whether the menu leads to the tenant's people, tokens and kill switch."""
        return "administrator" in self.actor.roles

    @property
    def grants(self) -> bool:
        """Whether the menu leads to the standing grants: those who make them or take them back."""
        return not GRANTING.isdisjoint(self.actor.roles)

    @property
    def starts_sessions(self) -> bool:
        return not STARTING.isdisjoint(self.actor.roles)


def member_for(request: HttpRequest) -> Member | None:
    """The signed-in person as a member of their active tenant; None for one without any role.

    Active is what the web session says, as long as they hold a role there, else their oldest membership's tenant.
    """
    user = request.user
    if not isinstance(user, AbstractBaseUser):
        return None
    memberships = memberships_of(user)
    if not memberships:
        return None
    tenants = {str(held.tenant_id): held.tenant for held in memberships}
    chosen = str(request.session.get(ACTIVE_TENANT, ""))
    tenant = tenants.get(chosen) or memberships[0].tenant
    return Member(_actor(request, user, tenant, memberships), tenant, tuple(tenants.values()))


def actor_for(request: HttpRequest) -> Actor | None:
    """The signed-in person as who acts: in their active tenant, or in none, as a superuser without any role is."""
    member = member_for(request)
    if member is not None:
        return member.actor
    user = request.user
    return _actor(request, user, None, []) if isinstance(user, AbstractBaseUser) else None


def _actor(request: HttpRequest, user: AbstractBaseUser, tenant: Tenant | None, memberships: list[Membership]) -> Actor:
    held = [held.role for held in memberships if tenant is not None and held.tenant_id == tenant.id]
    return Actor(
        subject=f"{PERSON}{user.pk}",
        name=(getattr(user, "get_full_name", str)() or user.get_username())[:200],
        tenant=tenant.id if tenant is not None else None,
        source="web",
        roles=tuple(sorted(held)),
        is_superuser=bool(getattr(user, "is_superuser", False)),
        authenticated_at=authenticated_at(request),
    )


def settle_tenant(request: HttpRequest) -> None:
    """At sign-in: the oldest membership's tenant becomes the active one, and stays so when others are added."""
    member = member_for(request)
    if member is not None:
        request.session[ACTIVE_TENANT] = str(member.tenant.id)


def switch_tenant(request: HttpRequest, tenant_id: str) -> bool:
    """Make another tenant the active one. False, and nothing changes, unless the person holds a role there."""
    member = member_for(request)
    if member is None or tenant_id not in {str(tenant.id) for tenant in member.tenants}:
        return False
    request.session[ACTIVE_TENANT] = tenant_id
    return True
