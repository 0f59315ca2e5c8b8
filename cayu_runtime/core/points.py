"""Fault points: the places between which a process can be lost. In production nobody listens, and each costs a test.

Every commit of the act-once path and every run of a tool lies between two of them. A point is called by its function
and its side, `core.dispatch.settle after commit`; `python -m tests.proof.points` numbers them all.
"""

from __future__ import annotations

from collections.abc import Callable

BEFORE_COMMIT, AFTER_COMMIT = "before commit", "after commit"
BEFORE_TOOL, AFTER_TOOL = "before tool", "after tool"

listener: Callable[[str], None] | None = None
"""Told each point by the thread that comes there. It may raise, wait, or end the process: tests alone set it."""


def reached(side: str) -> None:
    if listener is not None:
        listener(side)
