from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..core.ids import new_id
from ..core.states import ATTEMPT
from .effect import EffectRecord
from .fields import DigestField, JSONTextField, StateField, one_of, set_exactly_in, whole_digests
from .tenant import Tenant

KINDS = ("dispatch", "lookup", "receipt", "late_outcome")


class Attempt(models.Model):
    """Evidence of something tried on an effect: a dispatch, a lookup, a supplied receipt, a late outcome.

    A dispatch is admitted before the tool runs; what came of it is written to `evidence` when it is closed.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    effect = models.ForeignKey(EffectRecord, models.PROTECT, related_name="attempts")
    kind = models.CharField(max_length=12)
    state = StateField(max_length=12)
    dispatch_id = models.UUIDField(null=True)
    request_digest = DigestField(max_length=32, null=True)
    actor = models.CharField(max_length=200, default="")
    reason = models.CharField(max_length=2000, default="")
    evidence = JSONTextField(null=True)
    admitted_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            one_of("attempt", "kind", KINDS),
            whole_digests("attempt", "request_digest"),
            one_of("attempt", "state", ATTEMPT.names),
            set_exactly_in("attempt", "closed_at", "state", ("selected", "superseded")),
            models.UniqueConstraint(fields=("effect",), name="attempt_one_admitted", condition=Q(state="admitted")),
            models.UniqueConstraint(
                fields=("dispatch_id",), name="attempt_dispatch_unique", condition=Q(kind="dispatch")
            ),
            models.CheckConstraint(
                condition=~Q(kind="dispatch") | Q(dispatch_id__isnull=False), name="attempt_dispatch_has_id"
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.state}"
