from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..core.ids import new_id
from ..core.states import QUESTION
from .call import ToolCall
from .fields import DigestField, JSONTextField, StateField, one_of, set_exactly_in, whole_digests
from .session import Session
from .tenant import Tenant


class Question(models.Model):
    """Something an agent asks a person. Answered once, by digest, before its deadline.

    It carries what a queue row shows, so that a page of the queue is read from this table alone.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session = models.ForeignKey(Session, models.PROTECT)
    call = models.OneToOneField(ToolCall, models.PROTECT, related_name="question")
    agent = models.CharField(max_length=100)
    task = models.CharField(max_length=200)
    requester = models.CharField(max_length=200)
    requester_name = models.CharField(max_length=200)
    text = models.TextField()
    choices = JSONTextField(null=True)
    digest = DigestField(max_length=32)
    state = StateField(max_length=12)
    answer = JSONTextField(null=True)
    answered_by = models.CharField(max_length=200, default="")
    answered_by_name = models.CharField(max_length=200, default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            one_of("question", "state", QUESTION.names),
            whole_digests("question", "digest"),
            set_exactly_in("question", "closed_at", "state", QUESTION.final),
            set_exactly_in("question", "answer", "state", ("answered",)),
            models.CheckConstraint(
                condition=~Q(state="answered") | ~Q(answered_by=""), name="question_answered_by_someone"
            ),
            models.CheckConstraint(condition=Q(expires_at__gt=models.F("created_at")), name="question_has_time"),
        )
        indexes = (
            # the question queue, soonest to expire first
            models.Index(fields=("tenant", "expires_at", "id"), name="question_queue", condition=Q(state="pending")),
            # "Last answer 14:02 by …"
            models.Index(fields=("tenant", "-closed_at"), name="question_answered", condition=Q(state="answered")),
            # the sweep: what is due, over all tenants
            models.Index(fields=("expires_at",), name="question_due", condition=Q(state="pending")),
        )

    def __str__(self) -> str:
        return self.text[:80]
