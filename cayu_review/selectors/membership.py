from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from cayu_runtime.errors import NotFound
from cayu_runtime.models import Tenant

from ..models import Identity, Membership

PERSON = "user:"
PAGE = 50


def _in_time() -> Q:
    """Begun and not over, by the database's clock."""
    return Q(valid_from__lte=Now()) & (Q(valid_until=None) | Q(valid_until__gt=Now()))


def held_in(tenant_id: UUID, subject: str) -> dict[str, Membership]:
    """What an active person holds in a tenant at this moment, by role. Nothing for a subject that is no person."""
    key = key_of(subject)
    if key is None:
        return {}
    rows = Membership.objects.filter(_in_time(), tenant=tenant_id, user=key, user__is_active=True)
    return {row.role: row for row in rows}


def roles_of(tenant_id: UUID, subject: str) -> frozenset[str]:
    """The roles that an active person holds in a tenant at this moment. None for a subject that is no person."""
    return frozenset(held_in(tenant_id, subject))


@dataclass(frozen=True, slots=True)
class PersonHere:
    """An account with what was given to it in one tenant."""

    user: AbstractBaseUser
    held: tuple[Membership, ...]


def people_in(tenant: Tenant, after: str = "") -> list[PersonHere]:
    """Who holds a role in a tenant, or held one that was not taken, by the name they sign in with, from after `after`:
    a page and one more.
    """
    model = get_user_model()
    name = model.USERNAME_FIELD
    found = model.objects.filter(people_of(tenant.pk), **{f"{name}__gt": after}).order_by(name)[: PAGE + 1]
    users = list(found)
    held: dict[Any, list[Membership]] = {}
    for row in Membership.objects.filter(tenant=tenant, user__in=users).order_by("role"):
        held.setdefault(row.user_id, []).append(row)
    return [PersonHere(user, tuple(held.get(user.pk, ()))) for user in users]


def granted_to(user: AbstractBaseUser, tenant: Tenant) -> list[Membership]:
    """What a person was given in a tenant, whether it counts now or not, by role."""
    return list(Membership.objects.filter(user_id=user.pk, tenant=tenant).order_by("role"))


def person_of(tenant: Tenant, key: int) -> AbstractBaseUser:
    """An account that was given a role in this tenant. NotFound for any other."""
    user = get_user_model().objects.filter(people_of(tenant.pk), pk=key).first()
    if user is None:
        raise NotFound("There is no such person here.")
    return user


def find_person(name: str) -> AbstractBaseUser | None:
    """The account that signs in with this name, in whatever tenant."""
    model = get_user_model()
    return None if "\0" in name or not name else model.objects.filter(**{model.USERNAME_FIELD: name}).first()


def names_of(subjects: Iterable[str]) -> dict[str, str]:
    """The names of those of these subjects that are people, whether their account is still on or not."""
    keys = {subject: key for subject in subjects if (key := key_of(subject)) is not None}
    people = get_user_model().objects.in_bulk(set(keys.values()))
    return {
        subject: people[key].get_full_name() or people[key].get_username()
        for subject, key in keys.items()
        if key in people
    }


def is_superuser(subject: str) -> bool:
    """Whether this subject is an active superuser at this moment."""
    key = key_of(subject)
    return key is not None and get_user_model().objects.filter(pk=key, is_active=True, is_superuser=True).exists()


def is_of_tenant_alone(user: AbstractBaseUser, tenant_id: UUID | None) -> bool:
    """Whether a person holds roles in this tenant and in no other, now or at any time, stands above none, and does not
    come from an identity provider.
    """
    if getattr(user, "is_superuser", False) or getattr(user, "is_staff", False):
        return False
    if Identity.objects.filter(user_id=user.pk).exists():
        return False  # a password of ours would let in whom the provider no longer does, in each tenant to come
    tenants = Membership.objects.filter(user_id=user.pk).values_list("tenant", flat=True)
    return set(tenants) == {tenant_id}


def people_of(tenant_id: UUID | None) -> Exists:
    """The condition on accounts that they hold a role in this tenant."""
    return Exists(Membership.objects.filter(user=OuterRef("pk"), tenant=tenant_id))


def key_of(subject: str) -> Any:
    """The account's key in a subject; None if it is no person's."""
    if not subject.startswith(PERSON):
        return None
    try:
        return get_user_model()._meta.pk.to_python(subject.removeprefix(PERSON))
    except ValidationError:
        return None


def memberships_of(user: AbstractBaseUser) -> list[Membership]:
    """What a person holds now, with the tenants, the oldest first, so that a new one never changes which is first."""
    rows = Membership.objects.filter(_in_time(), user_id=user.pk).select_related("tenant")
    return list(rows.order_by("created_at", "id"))
