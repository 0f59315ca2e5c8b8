from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from cayu_runtime.models import Tenant
from cayu_runtime.models.fields import JSONTextField

ROLES = ("viewer", "approver", "reconciler", "auditor", "administrator")
# Roles that can be limited to tools and targets.
LIMITED = ("approver", "reconciler")
MAX_TIER = 9
ORIGINS = ("hand", "sign_in")


class Membership(models.Model):
    """One role of one person in one tenant, from `valid_from` until `valid_until` (null: open).

    `viewer` reads and starts sessions; `approver` also decides, and reconciles; `reconciler` brings evidence for
    uncertain effects, and repairs and gives up sessions; `auditor` reads every row in the admin; `administrator`
    manages the people of the tenant there. Each of the five reads the pages.

    An approver has a `tier`, 1 to 9: some requests need a higher one. `tools` and `targets` limit an approver or a
    reconciler to these; empty means all. A name that ends in `*` stands for all that begin so. `origin` says who keeps
    the role: a person (`hand`), or what the identity provider claims at each sign-in (`sign_in`).
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_index=False, related_name="memberships")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=20, choices=[(role, role) for role in ROLES])
    tier = models.SmallIntegerField(default=1)
    tools = JSONTextField(default=list, blank=True)
    targets = JSONTextField(default=list, blank=True)
    valid_from = models.DateTimeField(db_default=Now())
    valid_until = models.DateTimeField(null=True, blank=True)
    origin = models.CharField(max_length=8, default="hand", editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(role__in=ROLES), name="membership_role_known"),
            models.CheckConstraint(condition=Q(origin__in=ORIGINS), name="membership_origin_known"),
            models.CheckConstraint(
                condition=Q(tier=1) | Q(role="approver", tier__gte=1, tier__lte=MAX_TIER), name="membership_tier_sound"
            ),
            models.CheckConstraint(
                condition=Q(role__in=LIMITED) | Q(tools=[], targets=[]), name="membership_limits_sound"
            ),
            models.CheckConstraint(
                condition=Q(valid_until__isnull=True) | Q(valid_until__gt=F("valid_from")), name="membership_has_time"
            ),
            models.UniqueConstraint(fields=("user", "tenant", "role"), name="membership_role_once"),
        )

    def __str__(self) -> str:
        return f"{self.user} is {self.role} in {self.tenant}"

    @property
    def is_limited(self) -> bool:
        return bool(self.tools or self.targets)

    def is_over(self, now: datetime) -> bool:
        return self.valid_until is not None and self.valid_until <= now

    def covers(self, tool: str, target: str) -> bool:
        """Whether this role reaches a call of that tool at that target."""
        return _named(self.tools, tool) and _named(self.targets, target)


def _named(patterns: Iterable[str], name: str) -> bool:
    patterns = list(patterns)
    return not patterns or any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns
    )
