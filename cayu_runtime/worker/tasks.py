"""Entry points of the queue. A task carries one id; delivered once, often or never, the row decides."""

from __future__ import annotations

import os
from uuid import UUID

from .beats import worker_name
from .duty import current
from .turns import Turns

_turns = Turns()


def run_session(session: str) -> None:
    """Answer a wake-up: run the session whose turn it is. It may be another one, and then that one's wake-up, or the
    sweep's, is for this one.
    """
    if not current.leaving:
        _turns.take(worker_name(os.getpid()), UUID(session))
