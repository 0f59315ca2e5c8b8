from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from cayu_runtime.models import Approval, Tenant


class Claim(models.Model):
    """Who is looking at a waiting approval, from `since` until `until`, so that colleagues don't do the same work.

    A hint, never authority: whoever may decide it decides it all the same. It ends by time, by the holder's decision or
    by being given back; it is about nothing once the approval waits no more. One row per approval; the next holder
    takes it over.
    """

    approval = models.OneToOneField(Approval, models.CASCADE, primary_key=True, related_name="+")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    holder = models.CharField(max_length=200)
    holder_name = models.CharField(max_length=200)
    since = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(until__gt=F("since")), name="claim_has_time"),)
        indexes = (
            # what colleagues look at, when the next item is opened
            models.Index(fields=("tenant", "until"), name="claim_of_tenant"),
        )

    def __str__(self) -> str:
        return f"{self.holder_name} looks at {self.approval_id}"
