"""What a failed model step leaves: a later try, written on the session's row, or a session that says why it stopped.

Nothing of the failed answer is kept, and no tool ran because of it; what is tried again is the model step alone. The
worker does not wait: the session is `pending` with `runnable_at` ahead, and the sweep rings when it is due.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from .lease import Lease
from .model import ModelFailed
from .routing import place_session
from .transitions import transition

# Seconds before the second, third … try of one model step; one try more than there are waits.
WAITS = (2.0, 10.0, 40.0, 120.0)
MAX_TRIES = len(WAITS) + 1
# A provider may ask for a longer wait (Retry-After), up to this.
LONGEST_WAIT = 300.0


def record_failure(lease: Lease, failure: ModelFailed) -> None:
    """Release the session after a model step that gave nothing, with its `model.error` event.

    Retryable and tries left: pending, runnable after a wait. Else `interrupted(model_unavailable)`, and whoever resumes
    it has all tries again. A stop that was asked for meanwhile is obeyed instead.
    """
    with transition(lease.session, fence=lease.fence) as change:
        session = change.session
        tries = session.model_failures + 1
        said: dict[str, Any] = {
            "error": failure.kind,
            "message": failure.message,
            "tries": tries,
            "models": failure.tried,
        }
        if session.state == "interrupting":
            change.event("model.error", **said)
            change.set(model_failures=0)
            place_session(change, set())
        elif failure.retryable and tries < MAX_TRIES:
            wait = seconds_to_wait(session.id, tries, failure.retry_after)
            change.event("model.error", **said, again_in=round(wait, 1))
            change.session_to("pending", runnable_at=change.now + timedelta(seconds=wait), model_failures=tries)
        else:
            change.event("model.error", **said)
            change.session_to(
                "interrupted", interruption="model_unavailable", stopped_by="model_unavailable", model_failures=0
            )
            change.event("session.interrupted", interruption="model_unavailable")


def seconds_to_wait(session: UUID, tries: int, retry_after: float | None) -> float:
    """At least what the provider asked for, else longer with each try; at most LONGEST_WAIT.

    Up to a quarter more, by the session's id, so that what failed together does not come back together.
    """
    spread = 1 + session.int % 1024 / 4096
    return min(max(WAITS[tries - 1], retry_after or 0.0) * spread, LONGEST_WAIT)
