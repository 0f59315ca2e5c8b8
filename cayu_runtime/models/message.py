from __future__ import annotations

from django.db import models

from .fields import JSONTextField, one_of
from .session import Session
from .tenant import Tenant

ROLES = ("user", "model", "tools")


class Message(models.Model):
    """A transcript entry, append-only (a trigger refuses change), in the model library's own serialised form."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session = models.ForeignKey(Session, models.PROTECT, db_index=False)
    position = models.IntegerField()
    role = models.CharField(max_length=8)
    body = JSONTextField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("session", "position"), name="message_position_unique"),
            one_of("message", "role", ROLES),
        )

    def __str__(self) -> str:
        return f"{self.session_id}/{self.position} {self.role}"
