from __future__ import annotations

from django.db import models

from ..core.ids import new_id
from .fields import DigestField, whole_digests
from .session import Session
from .tenant import Tenant


class IdempotencyKey(models.Model):
    """A request that was carried out under a key of its sender, committed with what it did.

    `owner` is the token's or person's subject, `request_digest` says what was asked. `session` (and `position`, of a
    message) is what came of it. After `expires_at` the key means nothing any more.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    owner = models.CharField(max_length=200)
    key = models.CharField(max_length=200)
    request_digest = DigestField(max_length=32)
    session = models.ForeignKey(Session, models.PROTECT, db_index=False)
    position = models.IntegerField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "owner", "key"), name="idempotency_key_once"),
            whole_digests("idempotency", "request_digest"),
            models.CheckConstraint(
                condition=models.Q(expires_at__gt=models.F("created_at"), position__gte=0), name="idempotency_is_sane"
            ),
        )
        indexes = (
            # the sweep: what is over
            models.Index(fields=("expires_at",), name="idempotency_over"),
        )

    def __str__(self) -> str:
        return f"{self.owner} {self.key}"
