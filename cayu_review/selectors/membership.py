from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError

from ..models import Membership

PERSON = "user:"


def roles_of(tenant_id: UUID, subject: str) -> frozenset[str]:
    """The roles that an active person holds in a tenant at this moment. None for a subject that is no person."""
    if not subject.startswith(PERSON):
        return frozenset()
    try:
        key: Any = get_user_model()._meta.pk.to_python(subject.removeprefix(PERSON))
    except ValidationError:
        return frozenset()
    held = Membership.objects.filter(tenant=tenant_id, user=key, user__is_active=True)
    return frozenset(held.values_list("role", flat=True))


def memberships_of(user: AbstractBaseUser) -> list[Membership]:
    """A person's memberships with their tenants, the oldest first, so that a new one never changes which is first."""
    rows = Membership.objects.filter(user_id=user.pk).select_related("tenant")
    return list(rows.order_by("created_at", "id"))
