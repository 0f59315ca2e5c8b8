from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import DateTimeField, Value
from django.db.models.functions import Now
from django.db.models.lookups import LessThan

from cayu_runtime.models import Tenant

from ..models import Identity

# How long a sign-in counts as fresh where a tenant asks for one before each decision that can't be undone.
FRESH = timedelta(minutes=5)


def find_identity(issuer: str, subject: str) -> Identity | None:
    return Identity.objects.select_related("user").filter(issuer=issuer, subject=subject).first()


def identities_of(user: AbstractBaseUser) -> list[Identity]:
    """Who this person is at identity providers, the oldest first."""
    return list(Identity.objects.filter(user_id=user.pk).order_by("pk"))


def wants_fresh_sign_in(tenant_id: UUID, authenticated_at: datetime | None) -> bool:
    """Whether this tenant asks for a fresh sign-in, and this is none: by the database's clock; unknown is old."""
    asking = Tenant.objects.filter(pk=tenant_id, step_up=True)
    if authenticated_at is not None:
        asking = asking.filter(LessThan(Value(authenticated_at + FRESH, output_field=DateTimeField()), Now()))
    return asking.exists()
