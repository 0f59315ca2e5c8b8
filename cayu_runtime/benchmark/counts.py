"""How many statements and commits one reference lifecycle takes, and its approved call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..models import Session
from . import marks
from .agents import APPLY, VERIFY
from .lifecycle import Engine, People, approve, people, run_lifecycle, start, wake
from .recorder import Record, recording

WARM_UP = 3


def counts(engine: Engine) -> Callable[[], dict[str, Any]]:
    who = people(engine)
    for _ in range(WARM_UP):
        run_lifecycle(who)

    def run() -> dict[str, Any]:
        _, record = recorded_lifecycle(who)
        return {
            "statements_per_lifecycle": record.statements,
            "commits_per_lifecycle": record.commits,
            "commits_per_approved_call": record.between("asked", VERIFY.spec.name),
        }

    return run


def recorded_lifecycle(who: People) -> tuple[Session, Record]:
    """One lifecycle with its statements. Marks: `asked`, and each tool's name when it ran.

    From `asked` to the run of the call after the approved one lie its decision, claim, intent and settlement.
    """
    with recording() as record, marks.listening(record.mark):
        session = start(who)
        wake(who, session)
        record.mark("asked")
        approve(who, session)
        wake(who, session)
    assert APPLY.spec.name in record.marks
    session.refresh_from_db()
    assert session.state == "completed", f"The lifecycle ended {session.state}."
    return session, record
