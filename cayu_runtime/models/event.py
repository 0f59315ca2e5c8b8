from __future__ import annotations

from django.db import models
from django.db.models import Q

from .fields import DigestField, JSONTextField, whole_digests
from .session import Session
from .tenant import Tenant


class Event(models.Model):
    """Append-only audit and stream record (a trigger refuses change).

    (session, seq) is unique and gapless. `hash` is SHA-256 over the previous event's hash and this event's content;
    the head of the chain stands on the session row.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session = models.ForeignKey(Session, models.PROTECT, db_index=False)
    seq = models.BigIntegerField()
    type = models.CharField(max_length=60)
    payload = JSONTextField()
    at = models.DateTimeField()
    hash = DigestField(max_length=32)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("session", "seq"), name="event_seq_unique"),
            whole_digests("event", "hash"),
            models.CheckConstraint(condition=Q(seq__gte=1), name="event_seq_positive"),
        )

    def __str__(self) -> str:
        return f"{self.session_id}/{self.seq} {self.type}"
