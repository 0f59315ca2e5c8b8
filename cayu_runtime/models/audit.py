from __future__ import annotations

from django.db import models
from django.db.models import Q

from .fields import DigestField, JSONTextField, whole_digests
from .tenant import Tenant


class AuditEntry(models.Model):
    """The same as Event for what has no session: sign-in, role, token, grant, export. Chained per tenant."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    seq = models.BigIntegerField()
    type = models.CharField(max_length=60)
    actor = models.CharField(max_length=200)
    payload = JSONTextField()
    at = models.DateTimeField()
    hash = DigestField(max_length=32)

    class Meta:
        verbose_name_plural = "audit entries"
        constraints = (
            models.UniqueConstraint(fields=("tenant", "seq"), name="audit_seq_unique"),
            whole_digests("audit", "hash"),
            models.CheckConstraint(condition=Q(seq__gte=1), name="audit_seq_positive"),
        )

    def __str__(self) -> str:
        return f"{self.tenant_id}/{self.seq} {self.type}"
