"""What people are asked and what they answered: approvals and decisions, proposals, questions."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Q

from ..core.states import APPROVAL, PROPOSAL, QUESTION
from ..models import Approval, Decision, Grant, Proposal, Question, Tenant, ToolCall
from .listing import Search, Within
from .reading import AuditAdmin, Below
from .runs import SESSION_ID, of_session

OF_CALL = Within(ToolCall, lambda call: Q(call=call))


@admin.register(Approval)
class ApprovalAdmin(AuditAdmin):
    about = "What is wanted for one call. It binds to one digest and one version, and is used once."
    list_display = ("id", "session", "verb", "target", "effect_class", "requester_name", "state", "created_at")
    searches = (SESSION_ID, Search("effect's operation id", "call__effect__operation_id"))
    choices = {"state": APPROVAL.names}
    within = {
        "session": of_session(),
        "call": OF_CALL,
        "grant": Within(Grant, lambda grant: Q(grant=grant)),
    }
    below = (Below("Decisions", Decision, "approval"),)


@admin.register(Decision)
class DecisionAdmin(AuditAdmin):
    about = "One person's answer: the version and digest that they saw, the roles that they held. Never changed."
    list_display = ("id", "approval", "verdict", "actor_name", "source", "reason", "decided_at")
    searches = (Search("session id", "approval__session__session_id"),)
    choices = {"verdict": ("approve", "deny", "revoke")}
    within = {"approval": Within(Approval, lambda approval: Q(approval=approval))}


@admin.register(Grant)
class GrantAdmin(AuditAdmin):
    about = "What an approver let pass in advance: one tool, a range of arguments, a time, a number of uses."
    list_display = ("id", "tool", "agent", "made_by_name", "made_at", "expires_at", "uses", "max_uses", "revoked_at")
    within = {"tenant": Within(Tenant, lambda tenant: Q(tenant=tenant))}
    below = (Below("What it let pass", Approval, "grant"),)


@admin.register(Proposal)
class ProposalAdmin(AuditAdmin):
    about = "What an agent proposed to do, recorded before it asked to do it."
    list_display = ("action_id", "session", "tool", "state", "created_at", "expires_at")
    searches = (Search("action id", "action_id", prefix=True), SESSION_ID)
    choices = {"state": PROPOSAL.names}
    within = {"session": of_session(), "recorded_by": Within(ToolCall, lambda call: Q(recorded_by=call))}
    below = (Below("Calls made under it", ToolCall, "proposal"),)


@admin.register(Question)
class QuestionAdmin(AuditAdmin):
    about = "Something an agent asked a person."
    list_display = ("id", "session", "agent", "text", "state", "answered_by_name", "created_at")
    searches = (SESSION_ID,)
    choices = {"state": QUESTION.names}
    within = {"session": of_session(), "call": OF_CALL}
