"""The act-once ledger: effects, what was tried on each, and what a tool brought back that is too large for its call."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Q

from ..core.states import ATTEMPT, EFFECT
from ..models import Attachment, Attempt, EffectRecord, Session, ToolCall
from .listing import Search, Within
from .reading import AuditAdmin, Below
from .runs import SESSION_ID, of_session


@admin.register(EffectRecord)
class EffectRecordAdmin(AuditAdmin):
    about = "The entry of one action in the ledger: sent or not, and what proves its end. Its key is not shown."
    list_display = ("operation_id", "session", "tool", "target", "effect_class", "state", "created_at")
    searches = (
        Search("operation id", "operation_id", prefix=True),
        Search("latest dispatch id", "dispatch_id"),
        SESSION_ID,
    )
    choices = {"state": EFFECT.names, "effect_class": ("idempotent", "external")}
    within = {
        "session": of_session(),
        "call": Within(ToolCall, lambda call: Q(call=call)),
        "linked_to": Within(EffectRecord, lambda effect: Q(linked_to=effect)),
    }
    hidden = frozenset({"idempotency_key"})
    below = (
        Below("Attempts", Attempt, "effect"),
        Below("Attachments", Attachment, "effect"),
        Below("Calls that wait until it is settled", ToolCall, "held_by"),
        Below("Calls that were answered with its outcome", ToolCall, "repeats"),
        Below("Effects that share its key", EffectRecord, "linked_to"),
    )


@admin.register(Attempt)
class AttemptAdmin(AuditAdmin):
    about = "Something tried on an effect: a dispatch, a lookup, a supplied receipt, a late outcome."
    list_display = ("id", "effect", "kind", "state", "actor", "admitted_at", "closed_at")
    searches = (
        Search("effect's latest dispatch id", "effect__dispatch_id"),
        Search("effect's operation id", "effect__operation_id"),
    )
    choices = {"kind": ("dispatch", "lookup", "receipt", "late_outcome"), "state": ATTEMPT.names}
    within = {"effect": Within(EffectRecord, lambda effect: Q(effect=effect))}


@admin.register(Attachment)
class AttachmentAdmin(AuditAdmin):
    about = "A part of a result that is too large for the call. Name and type are the tool's words. Never changed."
    list_display = ("id", "session", "call", "name", "media_type", "size", "created_at")
    searches = (Search("session id", "call__round__session__session_id"),)
    within = {
        "session": Within(Session, lambda session: Q(call__round__session=session)),
        "call": Within(ToolCall, lambda call: Q(call=call), order="position"),
        "effect": Within(EffectRecord, lambda effect: Q(call=effect.call_id, effect=effect), order="position"),
    }
    hidden = frozenset({"body"})
