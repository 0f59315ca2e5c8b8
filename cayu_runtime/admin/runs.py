"""A tenant, its sessions, and what ran in each: rounds, calls, the transcript, the events."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Q

from ..core.states import CALL, ROUND, SESSION
from ..models import (
    Approval,
    Attachment,
    AuditEntry,
    DispatchPause,
    EffectRecord,
    Event,
    Message,
    Proposal,
    Question,
    Session,
    Tenant,
    ToolCall,
    ToolRound,
)
from .listing import Search, Within
from .reading import AuditAdmin, Below

SESSION_ID = Search("session id", "session__session_id")


def of_session(order: str = "") -> Within:
    return Within(Session, lambda session: Q(session=session), order)


BY_ROUND = Within(Session, lambda session: Q(round__session=session))
CLASSES = ("none", "idempotent", "external")


@admin.register(Tenant)
class TenantAdmin(AuditAdmin):
    about = "The owner of every row. You read the rows of your active tenant; switch it in the account menu."
    list_display = ("slug", "name", "created_at")
    searches = (Search("slug", "slug"),)
    below = (
        Below("Newest sessions", Session, "tenant"),
        Below("Newest audit entries", AuditEntry, "tenant"),
        Below("What is paused", DispatchPause, "tenant"),
    )

    def belongs(self, tenant: Tenant) -> Q:
        return Q(pk=tenant.pk)


@admin.register(Session)
class SessionAdmin(AuditAdmin):
    about = "One durable run of one agent."
    list_display = ("session_id", "task", "agent", "requester_name", "state", "interruption", "created_at")
    searches = (Search("session id", "session_id", prefix=True),)
    choices = {"state": SESSION.names}
    within = {"tenant": Within(Tenant, lambda tenant: Q(tenant=tenant))}
    below = (
        Below("Rounds", ToolRound, "session"),
        Below("Calls", ToolCall, "session"),
        Below("Effects", EffectRecord, "session"),
        Below("Approvals", Approval, "session"),
        Below("Questions", Question, "session"),
        Below("Proposals", Proposal, "session"),
        Below("Attachments", Attachment, "session"),
        Below("Transcript", Message, "session"),
        Below("Events, from the first", Event, "session"),
    )


@admin.register(ToolRound)
class ToolRoundAdmin(AuditAdmin):
    about = "All calls of one answer of a model, authorised as a whole before any of them runs."
    list_display = ("id", "session", "position", "state", "created_at", "settled_at")
    searches = (SESSION_ID,)
    choices = {"state": ROUND.names}
    within = {"session": of_session("position")}
    below = (Below("Calls", ToolCall, "round"),)


@admin.register(ToolCall)
class ToolCallAdmin(AuditAdmin):
    about = "One call of one tool: what was asked for, what the policy said, what came of it."
    list_display = ("id", "session", "verb", "target", "effect_class", "decision", "state", "created_at")
    searches = (
        Search("session id", "round__session__session_id"),
        Search("effect's operation id", "effect__operation_id"),
    )
    choices = {"state": CALL.names, "effect_class": CLASSES}
    within = {
        "session": BY_ROUND,
        "round": Within(ToolRound, lambda of: Q(round=of), order="position"),
        "proposal": Within(Proposal, lambda proposal: Q(round__session=proposal.session_id, proposal=proposal)),
        "held_by": Within(EffectRecord, lambda effect: Q(held_by=effect)),
        "repeats": Within(EffectRecord, lambda effect: Q(repeats=effect)),
    }
    below = (
        Below("Effect", EffectRecord, "call"),
        Below("Approvals", Approval, "call"),
        Below("Question", Question, "call"),
        Below("Proposals that it recorded", Proposal, "recorded_by"),
        Below("Attachments", Attachment, "call"),
    )


@admin.register(Message)
class MessageAdmin(AuditAdmin):
    about = "The transcript, as the model was given it and as it answered. Never changed."
    list_display = ("position", "session", "role", "created_at")
    searches = (SESSION_ID,)
    choices = {"role": ("user", "model", "tools")}
    within = {"session": of_session("position")}


@admin.register(Event)
class EventAdmin(AuditAdmin):
    about = (
        "What happened, in order and without a gap. Each hash covers the one before it; the last stands on the "
        "session. Never changed."
    )
    list_display = ("seq", "session", "type", "at", "hash")
    searches = (SESSION_ID,)
    within = {"session": of_session("seq")}
