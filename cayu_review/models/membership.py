from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from cayu_runtime.models import Tenant

ROLES = ("viewer", "approver", "reconciler", "auditor", "administrator")


class Membership(models.Model):
    """One role of one person in one tenant.

    `viewer` reads and starts sessions; `approver` also decides, and reconciles; `reconciler` brings evidence for
    uncertain effects, and repairs and gives up sessions; `auditor` reads every row in the admin; `administrator`
    manages the people of the tenant there. Each of the five reads the pages.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_index=False, related_name="memberships")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=20, choices=[(role, role) for role in ROLES])
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=models.Q(role__in=ROLES), name="membership_role_known"),
            models.UniqueConstraint(fields=("user", "tenant", "role"), name="membership_role_once"),
        )

    def __str__(self) -> str:
        return f"{self.user} is {self.role} in {self.tenant}"
