from __future__ import annotations

from django.db import models
from django.db.models import Q

from ..core.ids import new_id
from ..core.states import INTERRUPTIONS, LEASED, SESSION, STOPPED_BY
from .fields import DigestField, StateField, one_of, set_exactly_in, whole_digests
from .tenant import Tenant


class Session(models.Model):
    """One durable run of one agent. Its row is the lock that every transition of the run takes.

    The lease (`lease_owner`, `lease_until`) says who holds it, `fence` grows with each claim and stands in every
    worker write. `runnable_at`: null waits for someone, the future is a back-off. `last_seq` and `last_hash` are the
    head of the event chain, `messages` and `rounds` the next positions. `model_failures` counts the tries of the model
    step that is due; the step itself sets it back.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    session_id = models.CharField(max_length=80)
    agent = models.CharField(max_length=100)
    agent_version = models.CharField(max_length=40)
    client_driven = models.BooleanField(default=False)
    task = models.CharField(max_length=200)
    requester = models.CharField(max_length=200)
    requester_name = models.CharField(max_length=200)
    state = StateField(max_length=16)
    interruption = models.CharField(max_length=24, null=True)
    stopped_by = models.CharField(max_length=24, null=True)
    failure = models.CharField(max_length=500, null=True)
    runnable_at = models.DateTimeField(null=True)
    lease_owner = models.CharField(max_length=100, null=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    stalls = models.SmallIntegerField(default=0)
    model_failures = models.SmallIntegerField(default=0)
    steps = models.IntegerField(default=0)
    messages = models.IntegerField(default=0)
    rounds = models.IntegerField(default=0)
    last_seq = models.BigIntegerField(default=0)
    last_hash = DigestField(max_length=32, default=bytes(32))
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "session_id"), name="session_id_unique_in_tenant"),
            one_of("session", "state", SESSION.names),
            whole_digests("session", "last_hash"),
            models.CheckConstraint(
                condition=Q(interruption__isnull=True) | Q(interruption__in=INTERRUPTIONS),
                name="session_interruption_known",
            ),
            models.CheckConstraint(
                condition=Q(stopped_by__isnull=True) | Q(stopped_by__in=STOPPED_BY), name="session_stopped_by_known"
            ),
            set_exactly_in("session", "interruption", "state", ("interrupted",)),
            set_exactly_in("session", "runnable_at", "state", ("pending",)),
            set_exactly_in("session", "lease_owner", "state", LEASED),
            set_exactly_in("session", "lease_until", "state", LEASED),
            set_exactly_in("session", "failure", "state", ("failed",)),
            set_exactly_in("session", "finished_at", "state", ("completed", "failed")),
            models.CheckConstraint(
                condition=Q(client_driven=False) | ~Q(state__in=("pending", "running", "interrupting")),
                name="session_client_driven_never_runs",
            ),
            models.CheckConstraint(condition=Q(model_failures__gte=0), name="session_model_failures_not_negative"),
            models.CheckConstraint(
                condition=Q(fence__gte=0, stalls__gte=0, steps__gte=0, messages__gte=0, rounds__gte=0, last_seq__gte=0),
                name="session_counters_not_negative",
            ),
        )
        indexes = (
            # the sweep: sessions that are runnable and unheld
            models.Index(fields=("runnable_at",), name="session_runnable", condition=Q(state="pending")),
            # the sweep: sessions whose lease is dead
            models.Index(fields=("lease_until",), name="session_leased", condition=Q(state__in=LEASED)),
            # what a limit, a lost worker or model, or an operator stopped, longest first
            models.Index(
                fields=("tenant", "updated_at"), name="session_stopped", condition=Q(stopped_by__isnull=False)
            ),
            # recovery: those that have not ended, oldest first
            models.Index(fields=("tenant", "id"), name="session_open", condition=~Q(state__in=("completed", "failed"))),
            # the session list, newest first
            models.Index(fields=("tenant", "-created_at", "-id"), name="session_newest"),
        )

    def __str__(self) -> str:
        return self.session_id
