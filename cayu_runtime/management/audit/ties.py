"""Whether rows agree with each other: tenants, sessions, states, digests. What no single row's constraint can see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from django.db import connection
from django.db.models import Count, F, Model, Q, QuerySet

from ...core import canonical
from ...core.judgement import action_digests
from ...core.states import CLOSED_CALL, CLOSED_EFFECT
from ...models import (
    Approval,
    Attachment,
    Attempt,
    Decision,
    EffectRecord,
    Grant,
    IdempotencyKey,
    Message,
    Proposal,
    Question,
    Tenant,
    ToolCall,
    ToolRound,
)
from . import Damage

READ = 2000

# Each row belongs to the tenant of what it hangs on, and to the same session as that. Events: with their chains.
OWNERS: list[tuple[type[Model], str, str, str]] = [
    (ToolRound, "session__tenant_id", "session_id", "session_id"),
    (ToolCall, "session__tenant_id", "session_id", "round__session_id"),
    (EffectRecord, "session__tenant_id", "session_id", "call__session_id"),
    (Approval, "session__tenant_id", "session_id", "call__session_id"),
    (Question, "session__tenant_id", "session_id", "call__session_id"),
    (Attachment, "session__tenant_id", "session_id", "call__session_id"),
    (Proposal, "session__tenant_id", "session_id", "session_id"),
    (Message, "session__tenant_id", "session_id", "session_id"),
    (IdempotencyKey, "session__tenant_id", "session_id", "session_id"),
    (Attempt, "effect__tenant_id", "effect_id", "effect_id"),
    (Decision, "approval__tenant_id", "approval_id", "approval_id"),
]

# The states of a call that go with each state of its effect. One whose session was given up has ended all the same.
CALLS_OF = {
    "proposed": ("awaiting_approval",),
    "authorized": ("prepared",),
    "intent_recorded": ("dispatched",),
    "receipted": ("dispatched", "outcome_unknown"),
    "outcome_unknown": ("outcome_unknown",),
    "manual_review": ("outcome_unknown",),
    "safe_to_retry": ("awaiting_approval",),
    "completed": ("completed",),
    "rejected": ("failed", "denied", "expired", "cancelled", "blocked"),
    "abandoned": ("failed", "denied", "expired", "cancelled", "blocked"),
}
CALLS_OF_APPROVAL = {"pending": ("awaiting_approval",), "approved": ("prepared",)}


def tie_damage(tenant: Tenant) -> Iterator[Damage]:
    for model, owner, *session in OWNERS:
        yield from _owner_damage(tenant, model, owner, *session)
    yield from _judge(ToolCall.objects.filter(tenant=tenant).select_related("round", "effect"), _call_problem)
    yield from _judge(EffectRecord.objects.filter(tenant=tenant).select_related("call"), _effect_problem)
    yield from _judge(Approval.objects.filter(tenant=tenant).select_related("call", "decided_by"), _approval_problem)
    yield from _judge(Proposal.objects.filter(tenant=tenant), _proposal_problem)
    yield from _grant_damage(tenant)


def reference_damage() -> Iterator[Damage]:
    """SQLite does not look again at references that were broken while it did not enforce them."""
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA foreign_key_check")
        while rows := cursor.fetchmany(READ):
            for table, rowid, parent, _ in rows:
                yield Damage(
                    "reference", f"{table} row {rowid}", f"It refers to a row of {parent} that does not exist."
                )


def stored_damage(tenant: Tenant) -> Iterator[Damage]:
    """Attachments that are not what their digest was made of. Every one of them is read."""
    for row in Attachment.objects.filter(tenant=tenant).order_by("id").iterator(1):
        if sha256(row.body).digest() != row.sha256 or len(row.body) != row.size:
            yield Damage("attachment", f"attachment {row.pk}", "Its bytes are not those that its digest was made of.")


def _owner_damage(tenant: Tenant, model: type[Model], owner: str, own: str, others: str) -> Iterator[Damage]:
    """Of every row that says it is this tenant's, and of those that hang on something of this tenant."""
    columns = ("pk", "tenant_id", owner, own, others)
    for where in ({"tenant": tenant}, {owner: tenant.pk}):
        rows = model._default_manager.filter(**where).order_by("pk").values_list(*columns)
        for pk, mine, theirs, one, other in rows.iterator(READ):
            name = f"{model._meta.model_name} {pk}"
            if mine != theirs and (mine == tenant.pk or "tenant" not in where):
                what = f"It says that it belongs to tenant {mine}; what it hangs on belongs to {theirs}."
                yield Damage("tenant", name, what)
            elif one != other and "tenant" in where:
                yield Damage("session", name, "It belongs to another session than what it hangs on.")


def _judge(rows: QuerySet[Any], problem_of: Callable[[Any], str]) -> Iterator[Damage]:
    for row in rows.order_by("pk").iterator(READ):
        problem = problem_of(row)
        if problem:
            yield Damage("state", f"{row._meta.model_name} {row.pk}", problem)


def _call_problem(call: ToolCall) -> str:
    effect: EffectRecord | None = getattr(call, "effect", None)
    if call.state not in CLOSED_CALL and call.round.state == "settled":
        return f"Its round is settled, and it has no result: it is {call.state}."
    if effect is None and call.effect_class != "none" and call.state != "blocked" and call.repeats_id is None:
        return f"It is {call.effect_class} and {call.state}, and no effect is on record for it."
    if call.state == "blocked" or call.repeats_id is not None:
        return ""  # what was refused may not even have a digest of its own
    intent = action_digests(
        call.tenant_id,
        call.tool,
        call.tool_version,
        call.effect_class,
        call.arguments,
        call.target,
        call.operation_id,
    )[1]
    return "" if intent == call.intent_digest else "Its arguments, tool or operation are not what was digested."


def _effect_problem(effect: EffectRecord) -> str:
    call = effect.call
    given_up = effect.abandoned_at is not None and call.state in CLOSED_CALL
    if not given_up and call.state not in CALLS_OF[effect.state]:
        return f"It is {effect.state}, and its call is {call.state}."
    if effect.intent_digest != call.intent_digest or effect.operation_id != call.operation_id:
        return "It is for another operation than its call."
    receipt = effect.receipt or {}
    if effect.receipt is not None and receipt.get("digest") != (effect.receipt_digest or b"").hex():
        return "Its receipt is not the one that its digest names."
    if effect.receipt is not None and receipt.get("operation_id") != effect.operation_id:
        return "Its receipt is for another operation."
    if effect.state in CLOSED_EFFECT or call.state not in CLOSED_CALL or given_up:
        return ""
    return "It is open, and its call has ended."


def _approval_problem(approval: Approval) -> str:
    call, decision = approval.call, approval.decided_by
    wanted = CALLS_OF_APPROVAL.get(approval.state)
    if wanted is not None and call.state not in wanted:
        return f"It is {approval.state}, and its call is {call.state}."
    if wanted is not None and approval.intent_digest != call.intent_digest:
        return "It is bound to something else than what its call would do."
    if decision is not None and decision.approval_id != approval.pk:
        return "The decision that it names is for another approval."
    if approval.state in ("approved", "consumed") and decision is not None:
        if decision.verdict != "approve" or decision.digest != approval.intent_digest:
            return "The decision that it names does not permit this."
    return ""


def _proposal_problem(proposal: Proposal) -> str:
    if canonical.digest(proposal.fields) != proposal.fields_digest:
        return "Its fields are not those that were digested."
    return ""


def _grant_damage(tenant: Tenant) -> Iterator[Damage]:
    """Each use of a grant is one approval, decided in its maker's name, and each such approval is one use."""
    fits = Q(approvals__tenant=F("tenant"), approvals__decided_by__actor=F("made_by"))
    grants = Grant.objects.filter(tenant=tenant)
    counted = grants.annotate(named=Count("approvals"), own=Count("approvals", filter=fits))
    for grant in counted.exclude(uses=F("named"), own=F("named")).order_by("pk").iterator(READ):
        what = f"It says that it was used {grant.uses} times; {grant.named} approvals name it, {grant.own} rightly."
        yield Damage("state", f"grant {grant.pk}", what)
