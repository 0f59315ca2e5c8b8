"""What a state means, in words that stay true: never a success before there is a receipt (UX 13, 14)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cayu_runtime.models import Approval, EffectRecord, Question, Session, ToolCall

from .exact import visible


@dataclass(frozen=True, slots=True)
class Words:
    """A state in words. `tone` picks colour and sign: wait, work, again, good, bad, stopped, doubt or still."""

    text: str
    tone: str


EFFECT_NAMES = {"none": "No effect", "idempotent": "Idempotent", "external": "External"}
EFFECT_MEANING = {
    "none": "Changes nothing that lasts.",
    "idempotent": (
        "May change something outside this system. The receiving side collapses repeats under one key, "
        "so a repeat does not act twice."
    ),
    "external": (
        "Acts outside this system, and a repeat may act twice. Sent at most once; cannot be undone from here."
    ),
}

SESSION_WORDS = {
    "pending": Words("Ready to run", "work"),
    "running": Words("Running", "work"),
    "interrupting": Words("Stopping", "work"),
    "completed": Words("Finished", "still"),
    "failed": Words("Failed", "bad"),
}
INTERRUPTION_WORDS = {
    "effect_outcome_unknown": Words("Waits: an outcome is unknown", "doubt"),
    "user_input_required": Words("Waits for an answer", "wait"),
    "approval_required": Words("Waits for approval", "wait"),
    "client_execution": Words("Waits for its client", "wait"),
    "limit_reached": Words("Stopped: a limit was reached", "stopped"),
    "model_unavailable": Words("Stopped: its model gave no answer", "stopped"),
    "worker_lost": Words("Crashed: its worker was lost", "bad"),
    "operator_requested": Words("Stopped by a person", "stopped"),
}
WAITS_FOR_MODEL = Words("Waits for its model, which gave no answer", "again")
HELD_BACK = Words("Held back: dispatch is paused", "wait")
ROUND_WORDS = {
    "waiting": "waits for people, and nothing of it was sent",
    "executing": "is carried out",
    "settled": "settled",
}
# What a session waits for, and who can end that.
SESSION_NEXT = {
    "pending": "A worker takes it up next. Nobody needs to do anything.",
    "running": "A worker is at it. Nobody needs to do anything.",
    "interrupting": "It was asked to stop, and does so at its worker's next step.",
    "completed": "",
    "failed": "",
}
INTERRUPTION_NEXT = {
    "effect_outcome_unknown": (
        "Something was dispatched, and nobody knows whether it happened. Evidence ends this; it is never sent again."
    ),
    "user_input_required": "It goes on when a person has answered what it asks.",
    "approval_required": (
        "It goes on when an approver has decided. Where a second person must agree, that is not who asked for it."
    ),
    "client_execution": "Its own client carries the calls out, reports what came of them, and finishes the session.",
    "limit_reached": "It goes on when a person resumes it or sends it a message; its steps then count anew.",
    "model_unavailable": "All its tries are used up. It goes on when a person resumes it.",
    "worker_lost": ("Three workers in a row were lost on the same step. Look at the logs, then resume it."),
    "operator_requested": "It goes on when a person resumes it or sends it a message.",
}
WAITS_FOR_SOMEBODY = ("effect_outcome_unknown", "user_input_required", "approval_required", "client_execution")

CALL_WORDS = {
    "awaiting_approval": Words("Waits for approval", "wait"),
    "awaiting_answer": Words("Waits for an answer", "wait"),
    "dispatched": Words("Dispatched, no outcome yet", "work"),
    "outcome_unknown": Words("Outcome unknown", "doubt"),
    "expired": Words("Expired, nothing was sent", "bad"),
    "cancelled": Words("Cancelled, nothing was sent", "bad"),
}
BLOCKED_WORDS = {
    "invalid": "Refused: the request was not valid",
    "policy": "Refused by policy",
    "denied_before": "Refused: it was denied before",
    "linked": "Refused: the same operation is open already",
    "stale": "Refused: the tool changed since it was reviewed",
    "limit_reached": "Not asked: too many requests of this agent wait already",
}
VERIFIED_WORDS = {
    "passed": Words("Done, verified", "good"),
    "failed": Words("Done by its receipt, but the check contradicts it", "doubt"),
    "inconclusive": Words("Done, the check could not tell", "good"),
}

EFFECT_WORDS = {
    "proposed": Words("Proposed, not authorised", "wait"),
    "authorized": Words("Authorised, not dispatched yet", "wait"),
    "intent_recorded": Words("Dispatched, no outcome yet", "work"),
    "receipted": Words("Receipt held, not verified yet", "work"),
    "outcome_unknown": Words("Outcome unknown", "doubt"),
    "manual_review": Words("Outcome unknown: needs a person's review", "doubt"),
    "safe_to_retry": Words("Did not happen; may be approved once more", "wait"),
    "rejected": Words("Not done", "bad"),
    "abandoned": Words("Given up, never dispatched", "bad"),
}
FINDING_WORDS = {
    "confirmed_done": "The receiving system confirms that it was done.",
    "confirmed_refused": "The receiving system says that it was not done.",
    "absent": "It is proved that it did not happen. A person may approve it once more.",
    "not_found": "Not seen so far. That proves nothing, so nothing changed.",
    "unsupported": "The receiving system can't be asked that. Nothing changed.",
    "conflict": "What stands there does not fit this operation. Nothing changed.",
    "unavailable": "No usable answer came. It needs a person's review.",
}
ATTEMPT_NAMES = {
    "dispatch": "Dispatch",
    "lookup": "Lookup",
    "receipt": "Supplied receipt",
    "late_outcome": "Late outcome",
}


def finding_words(finding: str) -> str:
    return FINDING_WORDS.get(finding, finding)


def session_words(session: Session, now: datetime) -> Words:
    if session.state == "interrupted":
        return INTERRUPTION_WORDS[session.interruption or "operator_requested"]
    if session.state == "pending" and session.model_failures:
        return WAITS_FOR_MODEL
    return HELD_BACK if tried_again_at(session, now) else SESSION_WORDS[session.state]


def session_next(session: Session, now: datetime) -> str:
    """What it waits for and who can end that; empty when it is over."""
    if session_words(session, now) is HELD_BACK:
        return "What it would send is held back. It goes on by itself once an operator has resumed dispatch."
    if session.state == "interrupted":
        return INTERRUPTION_NEXT[session.interruption or "operator_requested"]
    return SESSION_NEXT[session.state]


def tried_again_at(session: Session, now: datetime) -> datetime | None:
    """When a worker looks again at a session that is held back: its model is tried again, or dispatch is paused."""
    later = session.state == "pending" and session.runnable_at is not None and session.runnable_at > now
    return session.runnable_at if later else None


def seconds_to_refresh(session: Session) -> int:
    """How often a page of this session looks again; 0 when nothing moves without a new deed of a person."""
    if session.state in ("pending", "running", "interrupting"):
        return 1
    return 5 if session.interruption in WAITS_FOR_SOMEBODY else 0


def effect_words(effect: EffectRecord) -> Words:
    if effect.state == "completed":
        return _done(effect)
    return EFFECT_WORDS[effect.state]


def _done(effect: EffectRecord) -> Words:
    return VERIFIED_WORDS.get(effect.verification or "", Words("Done, not verified", "good"))


def call_words(call: ToolCall) -> Words:
    """The state of a call. Reads its effect, its question and its approvals, so load them with it."""
    effect: EffectRecord | None = getattr(call, "effect", None)
    if call.state == "prepared":
        if call.reason == "dispatch_paused":
            return Words("Held back: dispatch is paused", "wait")
        gated = any(approval.state == "approved" for approval in call.approvals.all())
        return Words("Approved, not dispatched yet" if gated else "Allowed, not started yet", "wait")
    if call.state == "dispatched" and effect is not None and effect.state == "receipted":
        return EFFECT_WORDS["receipted"]
    question = _question_of(call)
    if question is not None and call.state in ("completed", "expired"):
        return question_words(question, question.expires_at)
    if call.repeats_id is not None:
        return Words("Answered with the recorded outcome; nothing was sent", "still")
    if call.state == "completed":
        return Words("Done", "good") if effect is None else _done(effect)
    if call.state == "failed":
        return Words("Failed" if (call.result or {}).get("executed") else "Not done", "bad")
    if call.state == "denied":
        return Words(_denied(call), "bad")
    if call.state == "blocked":
        return Words(BLOCKED_WORDS.get(call.reason, "Refused"), "bad")
    return CALL_WORDS[call.state]


def _question_of(call: ToolCall) -> Question | None:
    """What was asked in place of a run. Asked for only where there may be one."""
    return getattr(call, "question", None) if call.effect_class == "none" and not call.runs else None


def _denied(call: ToolCall) -> str:
    if any(approval.state == "revoked" for approval in call.approvals.all()):
        return "Approval taken back, nothing was sent"
    decided = [approval.decided_by for approval in call.approvals.all() if approval.decided_by]
    return f"Denied by {visible(decided[-1].actor_name)}" if decided else "Denied"


def approval_words(approval: Approval, now: datetime) -> Words:
    """An approval in words, with what has come of it. Reads its call and the call's effect."""
    if approval.state == "pending" and approval.expires_at <= now:
        return Words("Not decided in time. Nothing was sent.", "bad")
    by = visible(approval.decided_by.actor_name) if approval.decided_by else ""
    match approval.state:
        case "pending":
            return Words("Waits for a decision", "wait")
        case "approved":
            return Words(f"Approved by {by}. Not dispatched yet.", "wait")
        case "consumed":
            came = call_words(approval.call)
            return Words(f"Approved by {by}. {came.text}.", came.tone)
        case "denied":
            return Words(f"Denied by {by}. Nothing was sent.", "bad")
        case "revoked":
            return Words(f"Approved by {by}, then taken back before it was dispatched.", "bad")
        case "expired":
            ended = f"Approved by {by}, but not dispatched in time" if by else "Nobody decided in time"
            return Words(f"{ended}. Nothing was sent.", "bad")
        case "void" if approval.call_id and getattr(getattr(approval.call, "effect", None), "quarantined_at", None):
            return Words("No longer valid: a backup was restored. What was sent since is to be found out.", "bad")
        case "void":
            return Words("No longer valid. Nothing was sent.", "bad")
        case _:
            return Words("Cancelled. Nothing was sent.", "bad")


def question_words(question: Question, now: datetime) -> Words:
    match question.state:
        case "pending" if question.expires_at > now:
            return Words("Waits for an answer", "wait")
        case "answered":
            return Words(f"Answered by {visible(question.answered_by_name)}", "good")
        case "cancelled":
            return Words("Withdrawn, no answer is needed", "bad")
        case _:
            return Words("Nobody answered in time", "bad")


def action_of(verb: str, target: str) -> str:
    """What would be done, as a phrase: "Refund order 1042"."""
    return visible(f"{verb} {target}".strip())


def action_within(verb: str, target: str) -> str:
    """The same inside a sentence: "refund order 1042". A verb that begins with an abbreviation keeps its capitals."""
    phrase = action_of(verb, target)
    return phrase if phrase[1:2].isupper() else phrase[:1].lower() + phrase[1:]


def said_of(call: ToolCall) -> str:
    """What a call's one result says, for a person: its reason, else its content."""
    result: dict[str, Any] = call.result or {}
    return str(result.get("reason") or result.get("content") or "")
