from __future__ import annotations

from django.db import models

from ..core.ids import new_id
from .fields import DigestField, whole_digests


class Tenant(models.Model):
    """The owner of every row. No row without one, no read without one.

    `step_up`: to decide about an EXTERNAL effect takes a fresh sign-in.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    step_up = models.BooleanField(default=False)
    audit_seq = models.BigIntegerField(default=0)
    audit_hash = DigestField(max_length=32, default=bytes(32))

    class Meta:
        constraints = (whole_digests("tenant", "audit_hash"),)

    def __str__(self) -> str:
        return self.name
