from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..core.ids import new_id
from ..core.states import OPEN_ROUND, ROUND
from .fields import StateField, one_of, set_exactly_in
from .session import Session
from .tenant import Tenant


class ToolRound(models.Model):
    """All tool calls of one model response or one client submission, authorised as a whole before any of them runs."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session = models.ForeignKey(Session, models.PROTECT, db_index=False)
    position = models.IntegerField()
    state = StateField(max_length=16)
    created_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("session", "position"), name="round_position_unique"),
            # a session has one open round at most; the engine and the interruption read it
            models.UniqueConstraint(fields=("session",), name="round_one_open", condition=Q(state__in=OPEN_ROUND)),
            one_of("round", "state", ROUND.names),
            set_exactly_in("round", "settled_at", "state", ("settled",)),
        )

    def __str__(self) -> str:
        return f"{self.session_id}/round {self.position}"
