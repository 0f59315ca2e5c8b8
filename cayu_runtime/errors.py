"""Refusals as types. `code` is stable (the API's table of codes), the message is a sentence that says what to do."""

from __future__ import annotations

from typing import Any


class CayuError(Exception):
    """Base of every refusal that a caller can act on."""

    code = "error"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class InvalidRequest(CayuError):
    """The input can't be used as it is."""

    code = "invalid_request"


class NotFound(CayuError):
    """No such row in this tenant."""

    code = "not_found"


class NotPermitted(CayuError):
    """The authority refused. `code` comes from the refusal."""

    code = "not_permitted"

    def __init__(self, message: str, code: str = "not_permitted", **details: Any) -> None:
        super().__init__(message, **details)
        self.code = code


class Conflict(CayuError):
    """Something else happened first; the message names what."""

    code = "conflict"


class AlreadyDecided(Conflict):
    """Somebody else's answer stands. `details["winner"]` names who, what and when."""

    code = "already_decided"


class StaleVersion(Conflict):
    """The content changed since it was read."""

    code = "stale_version"


class StageMoved(StaleVersion):
    """Others must agree by now than those whom this person belongs to. What the request is about is unchanged."""


class DigestMismatch(Conflict):
    """The digest in the request is not the one that stands on the row."""

    code = "digest_mismatch"


class ApprovalExpired(Conflict):
    """The time to decide is over; nothing ran."""

    code = "approval_expired"


class QuestionExpired(Conflict):
    """The time to answer is over; the agent was told that nobody answered."""

    code = "question_expired"


class ProposalConflict(Conflict):
    """The `action_id` stands for another proposal of this tenant: other fields, another tool or another session."""

    code = "proposal_conflict"


class StaleTool(Conflict):
    """The tool, its schema or its policy changed since this was asked: the approval is void, nothing runs."""

    code = "stale_tool"


class HeldAction(Conflict):
    """An equal action is uncertain. `details["held_by"]` is its effect, which must be settled first."""

    code = "held"


class Claimed(Conflict):
    """Somebody else is looking at it, and anybody may decide it. `details["claim"]` says who, and until when."""

    code = "claimed"


class StaleRevision(Conflict):
    """The effect changed since it was read; nothing was done."""

    code = "stale_revision"


class StalePlan(Conflict):
    """The session is not as the plan says any more; nothing was done. The plan is to be read again."""

    code = "stale_plan"


class NothingToRepair(Conflict):
    """The plan has no repair: what stands in the way needs a person or evidence. Nothing was done."""

    code = "nothing_to_repair"


class SessionExists(Conflict):
    """The chosen `session_id` is taken in this tenant."""

    code = "session_exists"


class NotAccepting(Conflict):
    """The session takes no message now. The transcript is as it was."""

    code = "not_accepting"


class NotResumable(Conflict):
    """The session can't be resumed as it is. Nothing was changed."""

    code = "not_resumable"


class LimitReached(Conflict):
    """The tenant has as much of something as it may have. The same request can succeed later, as it is.

    `details` names the `limit` and how many it allows (`most`).
    """

    code = "limit_reached"
    retry_after = 60


class IdempotencyConflict(CayuError):
    """The idempotency key was used for another request. Nothing was done."""

    code = "idempotency_conflict"


class Unfinished(Conflict):
    """The identical request was admitted and has no answer: it is under way, or broke off."""

    code = "unfinished"


class EffectConflict(Conflict):
    """The adapter says that the evidence does not fit this operation. It is kept; the effect stays uncertain."""

    code = "effect_conflict"


class NotTogether(Conflict):
    """The item can't be decided with the others of its set; it is to be decided for itself."""

    code = "not_together"


class IllegalMove(RuntimeError):
    """A move that `core/states.py` does not list. A fault of the program, never of its input."""


class LostRace(Conflict):
    """A row was moved by somebody else between reading and writing it. Nothing of this transition was kept."""

    code = "lost_race"


class Fenced(Exception):
    """The lease of this worker is gone: a newer claim or a stop holds the session. Stop, write nothing."""
