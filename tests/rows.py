"""Rows of every table in every state, inserted as they are: no service and no transition stands in the way.

    rows.call("dispatched")                  a call that may be running, with a round, a session and a tenant of its own
    rows.approval("approved", call=call)     with the Decision that approved it
    rows.session("failed", save=False)       not inserted; what it refers to is
    rows.make(EffectRecord, "receipted")     the same by model

`evidence(model, state)` is what a row in that state must carry (DESIGN §3: a row cannot lie); any column can be given
instead. A decided approval and its decision refer to each other, so with `save=False` that one needs a transaction.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, TypeVar

from django.db import models, transaction

from cayu_runtime.core.ids import new_id
from cayu_runtime.core.states import OPEN_CALL
from cayu_runtime.models import (
    Approval,
    Attachment,
    Attempt,
    AuditEntry,
    Decision,
    DispatchPause,
    EffectRecord,
    Event,
    Grant,
    IdempotencyKey,
    Message,
    Proposal,
    Quarantine,
    Question,
    Session,
    Tenant,
    ToolCall,
    ToolRound,
    Worker,
)

NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=1)
DIGEST = bytes(range(32))
RESULT = {"status": "completed", "executed": True, "outcome_unknown": False, "content": "done"}

_numbers = itertools.count(1)
Row = TypeVar("Row", bound=models.Model)

LEASE = {"lease_owner": "worker-1", "lease_until": LATER}
DISPATCH: dict[str, Any] = {
    "dispatch_id": new_id,
    "dispatches": 1,
    "dispatched_at": NOW,
    "deadline": LATER,
    "dispatch_fence": 1,
    "dispatched_by": "worker-1",
}
RECEIPT = {"receipt": {"v": 1, "outcome": "completed"}, "receipt_digest": DIGEST}
ENDED = {"result": RESULT, "finished_at": NOW}
CLOSED = {"closed_at": NOW}
DECIDED = {"decided_at": NOW, **CLOSED}

EVIDENCE: dict[type[models.Model], dict[str, dict[str, Any]]] = {
    Session: {
        "pending": {"runnable_at": NOW},
        "running": LEASE,
        "interrupting": LEASE,
        "interrupted": {"interruption": "operator_requested"},
        "completed": {"finished_at": NOW},
        "failed": {"finished_at": NOW, "failure": "It was abandoned."},
    },
    ToolRound: {"waiting": {}, "executing": {}, "settled": {"settled_at": NOW}},
    ToolCall: {
        "awaiting_approval": {},
        "awaiting_answer": {},
        "prepared": {},
        "dispatched": {"dispatched_at": NOW},
        "outcome_unknown": {"reason": "timeout"},
        "blocked": {"reason": "policy", **ENDED},
        **dict.fromkeys(("completed", "failed", "denied", "expired", "cancelled"), ENDED),
    },
    EffectRecord: {
        "proposed": {},
        "authorized": {},
        "intent_recorded": DISPATCH,
        "receipted": {**DISPATCH, **RECEIPT},
        "outcome_unknown": {**DISPATCH, "unknown_since": NOW},
        "manual_review": {**DISPATCH, "unknown_since": NOW},
        "safe_to_retry": DISPATCH,
        "completed": {**DISPATCH, **RECEIPT, **CLOSED},
        "rejected": {**DISPATCH, **RECEIPT, **CLOSED},
        "abandoned": CLOSED,
    },
    Approval: {
        "pending": {},
        "approved": {"decided_at": NOW, "needed": 0},
        "denied": DECIDED,
        "consumed": {**DECIDED, "needed": 0},
        "revoked": {**DECIDED, "needed": 0},
        **dict.fromkeys(("expired", "cancelled", "void"), CLOSED),
    },
    Proposal: {"open": {}, "used": CLOSED, "withdrawn": CLOSED, "expired": CLOSED},
    Question: {
        "pending": {},
        "answered": {"answer": "yes", "answered_by": "user:bob", "answered_by_name": "bob", **CLOSED},
        "expired": CLOSED,
        "cancelled": CLOSED,
    },
    Attempt: {"admitted": {}, "selected": CLOSED, "superseded": CLOSED},
}

CALL_OF_EFFECT = {
    "proposed": "awaiting_approval",
    "authorized": "prepared",
    "intent_recorded": "dispatched",
    "receipted": "dispatched",
    "outcome_unknown": "outcome_unknown",
    "manual_review": "outcome_unknown",
    "safe_to_retry": "outcome_unknown",
    "completed": "completed",
    "rejected": "failed",
    "abandoned": "cancelled",
}
CALL_OF_APPROVAL = {
    "pending": "awaiting_approval",
    "approved": "prepared",
    "consumed": "dispatched",
    "denied": "denied",
    "revoked": "denied",
    "expired": "expired",
    "cancelled": "cancelled",
    "void": "blocked",
}
CALL_OF_QUESTION = {"pending": "awaiting_answer", "answered": "completed"}


def evidence(model: type[models.Model], state: str) -> dict[str, Any]:
    """What a row of `model` in `state` carries; identities are new each time."""
    return {name: value() if callable(value) else value for name, value in EVIDENCE[model][state].items()}


def make(model: type[Row], *state: str, **values: Any) -> Row:
    row: Row = MAKERS[model](*state, **values)
    return row


def _built(model: type[Row], save: bool, values: dict[str, Any]) -> Row:
    row = model(**values)
    if save:
        row.save(force_insert=True)
    return row


def tenant(*, save: bool = True, **values: Any) -> Tenant:
    n = next(_numbers)
    return _built(Tenant, save, {"slug": f"tenant-{n}", "name": f"Tenant {n}", "created_at": NOW, **values})


def session(state: str = "running", *, save: bool = True, **values: Any) -> Session:
    if "tenant" not in values:
        values["tenant"] = tenant()
    defaults = {
        "session_id": f"session-{next(_numbers)}", "agent": "refunds", "agent_version": "1",
        "task": "Refund order 1042", "requester": "user:alice", "requester_name": "alice", "state": state, "fence": 1,
        "created_at": NOW, "updated_at": NOW,
    }  # fmt: skip
    return _built(Session, save, {**defaults, **evidence(Session, state), **values})


def tool_round(state: str = "executing", *, save: bool = True, **values: Any) -> ToolRound:
    of = _session_of(values)
    defaults = {"tenant": of.tenant, "position": next(_numbers), "state": state, "created_at": NOW}
    return _built(ToolRound, save, {**defaults, **evidence(ToolRound, state), **values})


def call(state: str = "prepared", *, save: bool = True, **values: Any) -> ToolCall:
    if "round" not in values:
        open_round = "waiting" if state.startswith("awaiting") else "executing"
        values["round"] = tool_round(open_round if state in OPEN_CALL else "settled", session=_session_of(values))
    of = values.setdefault("session", values["round"].session)
    n = next(_numbers)
    defaults = {
        "tenant": of.tenant, "position": n, "call_id": f"call-{n}", "tool": "refund", "tool_version": "1",
        "schema_digest": DIGEST, "effect_class": "external", "verb": "Refund an order", "target": "1042",
        "arguments": {"order": "1042", "amount": "25.50"}, "action_digest": DIGEST, "intent_digest": DIGEST,
        "operation_id": f"op_{n}", "decision": "deny" if state == "blocked" else "require_approval",
        "policy": "require_approval", "policy_version": "1", "policy_digest": DIGEST, "state": state,
        "created_at": NOW,
    }  # fmt: skip
    return _built(ToolCall, save, {**defaults, **evidence(ToolCall, state), **values})


def effect(state: str = "proposed", *, save: bool = True, **values: Any) -> EffectRecord:
    of = _call_of(values, CALL_OF_EFFECT.get(state, "prepared"))
    defaults = {
        "tenant": of.tenant, "session": of.session, "operation_id": of.operation_id,
        "idempotency_key": f"key-{next(_numbers)}", "tool": of.tool, "target": of.target, "state": state,
        "effect_class": of.effect_class, "action_digest": of.action_digest, "intent_digest": of.intent_digest,
        "created_at": NOW,
    }  # fmt: skip
    return _built(EffectRecord, save, {**defaults, **evidence(EffectRecord, state), **values})


def approval(state: str = "pending", *, save: bool = True, **values: Any) -> Approval:
    of = _call_of(values, CALL_OF_APPROVAL.get(state, "prepared"))
    defaults = {
        "id": new_id(),
        "tenant": of.tenant,
        "session": of.session,
        "intent_digest": of.intent_digest,
        "agent": "refunds",
        "task": "Refund order 1042",
        "tool": of.tool,
        "verb": of.verb,
        "target": of.target,
        "effect_class": of.effect_class,
        "requester": "user:alice",
        "requester_name": "alice",
        "four_eyes": True,
        "state": state,
        "created_at": NOW,
        "expires_at": LATER,
    }
    values = {**defaults, **evidence(Approval, state), **values}
    decided = values.get("decided_at") is not None and "decided_by" not in values
    with transaction.atomic(durable=False):
        if decided:
            verdict = "deny" if state == "denied" else "approve"
            values["decided_by"] = decision(verdict, approval_id=values["id"], tenant=values["tenant"])
        return _built(Approval, save, values)


def decision(verdict: str = "approve", *, save: bool = True, **values: Any) -> Decision:
    if "approval" not in values and "approval_id" not in values:
        values["approval"] = approval()
    if "tenant" not in values:
        values["tenant"] = values["approval"].tenant
    defaults = {
        "verdict": verdict, "actor": "user:bob", "actor_name": "bob", "source": "web", "roles": ["approver"],
        "version": 1, "digest": DIGEST, "decided_at": NOW,
    }  # fmt: skip
    return _built(Decision, save, {**defaults, **values})


def proposal(state: str = "open", *, save: bool = True, **values: Any) -> Proposal:
    of = _session_of(values)
    values["used_by"] = values.get("used_by") or (call("dispatched", session=of) if state == "used" else None)
    defaults = {
        "tenant": of.tenant,
        "round_position": 0,
        "action_id": f"action-{next(_numbers)}",
        "tool": "refund",
        "fields": {"order": "1042", "amount": "25.50"},
        "fields_digest": DIGEST,
        "state": state,
        "created_at": NOW,
        "expires_at": LATER,
    }
    return _built(Proposal, save, {**defaults, **evidence(Proposal, state), **values})


def question(state: str = "pending", *, save: bool = True, **values: Any) -> Question:
    of = _call_of(values, CALL_OF_QUESTION.get(state, state), effect_class="none", tool="ask")
    defaults = {
        "tenant": of.tenant, "session": of.session, "agent": "refunds", "task": "Refund order 1042",
        "requester": "user:alice", "requester_name": "alice", "text": "In full?", "digest": DIGEST, "state": state,
        "created_at": NOW, "expires_at": LATER,
    }  # fmt: skip
    return _built(Question, save, {**defaults, **evidence(Question, state), **values})


def attachment(*, save: bool = True, **values: Any) -> Attachment:
    of = _call_of(values, "completed")
    defaults = {
        "tenant": of.tenant, "session": of.session, "position": 0, "kind": "content", "name": "content.txt",
        "media_type": "text/plain; charset=utf-8", "size": 4, "sha256": sha256(b"done").digest(), "body": b"done",
        "created_at": NOW,
    }  # fmt: skip
    return _built(Attachment, save, {**defaults, **values})


def attempt(state: str = "admitted", *, save: bool = True, **values: Any) -> Attempt:
    if "effect" not in values:
        values["effect"] = effect("outcome_unknown")
    defaults = {"tenant": values["effect"].tenant, "kind": "lookup", "state": state, "admitted_at": NOW}
    return _built(Attempt, save, {**defaults, **evidence(Attempt, state), **values})


def event(*, save: bool = True, **values: Any) -> Event:
    of = _session_of(values)
    defaults = {
        "tenant": of.tenant, "seq": 1, "type": "session.started", "payload": {"v": 1}, "at": NOW, "hash": DIGEST,
    }  # fmt: skip
    return _built(Event, save, {**defaults, **values})


def audit_entry(*, save: bool = True, **values: Any) -> AuditEntry:
    if "tenant" not in values:
        values["tenant"] = tenant()
    defaults = {
        "seq": 1, "type": "sign_in.succeeded", "actor": "user:alice", "payload": {"v": 1}, "at": NOW, "hash": DIGEST,
    }  # fmt: skip
    return _built(AuditEntry, save, {**defaults, **values})


def message(role: str = "user", *, save: bool = True, **values: Any) -> Message:
    of = _session_of(values)
    defaults = {
        "tenant": of.tenant, "position": 0, "role": role, "body": {"kind": "request", "parts": []}, "created_at": NOW,
    }  # fmt: skip
    return _built(Message, save, {**defaults, **values})


def pause(*, save: bool = True, **values: Any) -> DispatchPause:
    if "tenant" not in values:
        values["tenant"] = tenant()
    defaults = {"tool": "refund", "reason": "The ledger is being moved.", "created_by": "user:bob", "created_at": NOW}
    return _built(DispatchPause, save, {**defaults, **values})


def grant(*, save: bool = True, **values: Any) -> Grant:
    if "tenant" not in values:
        values["tenant"] = tenant()
    defaults = {
        "tool": "refund", "tool_version": "1", "rules": {"amount": {"min": "0", "max": "50.00"}},
        "reason": "Small refunds, all of this week.", "made_by": "user:bob", "made_by_name": "bob", "made_at": NOW,
        "expires_at": LATER, "max_uses": 10,
    }  # fmt: skip
    return _built(Grant, save, {**defaults, **values})


def quarantine(*, save: bool = True, **values: Any) -> Quarantine:
    if "tenant" not in values:
        values["tenant"] = tenant()
    defaults = {
        "reason": "The backup of yesterday was restored.", "started_by": "user:bob", "started_by_name": "bob",
        "started_at": NOW,
    }  # fmt: skip
    return _built(Quarantine, save, {**defaults, **values})


def idempotency_key(*, save: bool = True, **values: Any) -> IdempotencyKey:
    of = _session_of(values)
    defaults = {
        "tenant": of.tenant, "owner": "token:1", "key": f"key-{next(_numbers)}", "request_digest": DIGEST,
        "position": 0, "created_at": NOW, "expires_at": LATER,
    }  # fmt: skip
    return _built(IdempotencyKey, save, {**defaults, **values})


def worker(*, save: bool = True, **values: Any) -> Worker:
    defaults = {
        "host": "host-1", "supervisor": 100, "pid": next(_numbers), "tasks": 0, "leaving": False,
        "started_at": NOW, "beat_at": NOW,
    }  # fmt: skip
    return _built(Worker, save, {**defaults, **values})


def _session_of(values: dict[str, Any]) -> Session:
    if "session" not in values:
        values["session"] = session()
    of: Session = values["session"]
    return of


def _call_of(values: dict[str, Any], state: str, **columns: Any) -> ToolCall:
    if "call" not in values:
        values["call"] = call(state, **columns)
    of: ToolCall = values["call"]
    return of


MAKERS: dict[type[models.Model], Callable[..., Any]] = {
    Tenant: tenant,
    Session: session,
    ToolRound: tool_round,
    ToolCall: call,
    EffectRecord: effect,
    Approval: approval,
    Decision: decision,
    Proposal: proposal,
    Question: question,
    Attachment: attachment,
    Attempt: attempt,
    Event: event,
    AuditEntry: audit_entry,
    Message: message,
    IdempotencyKey: idempotency_key,
    DispatchPause: pause,
    Grant: grant,
    Quarantine: quarantine,
    Worker: worker,
}
