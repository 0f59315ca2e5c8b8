from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..core.ids import new_id
from .call import ToolCall
from .effect import EffectRecord
from .fields import BytesField, DigestField, one_of, whole_digests
from .session import Session
from .tenant import Tenant

KINDS = ("content", "structured", "artifact")


class Attachment(models.Model):
    """A part of a tool's result that is too large for the call's row, append-only (a trigger refuses change).

    `kind` says which part of the result it is. The call's result keeps an excerpt and names this row's id, size and
    digest. `name` and `media_type` are the tool's words: to be shown and never to be trusted. `size` is in bytes,
    `sha256` is over `body`.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session = models.ForeignKey(Session, models.PROTECT, db_index=False)
    call = models.ForeignKey(ToolCall, models.PROTECT, db_index=False, related_name="attachments")
    effect = models.ForeignKey(EffectRecord, models.PROTECT, null=True, db_index=False, related_name="attachments")
    position = models.SmallIntegerField()
    kind = models.CharField(max_length=12)
    name = models.CharField(max_length=200)
    media_type = models.CharField(max_length=100)
    size = models.BigIntegerField()
    sha256 = DigestField(max_length=32)
    body = BytesField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("call", "position"), name="attachment_position_unique"),
            one_of("attachment", "kind", KINDS),
            whole_digests("attachment", "sha256"),
            models.CheckConstraint(condition=Q(size__gte=0, position__gte=0), name="attachment_numbers_sane"),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.size} bytes)"
