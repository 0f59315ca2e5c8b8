"""The fault points, numbered: every commit of the act-once path from both sides, and every run of a tool.

    python -m tests.proof.points

The names are read from the source (`found`); each has its number here, so that a new transition without one fails a
test, and the run of the proof says of each number how often something was broken there.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from cayu_runtime.core.points import AFTER_COMMIT, AFTER_TOOL, BEFORE_COMMIT, BEFORE_TOOL

PACKAGE = Path(__file__).parent.parent.parent / "cayu_runtime"
TOOL = "core.perform.perform"
# In the order of a session's life; a new one goes to the end of its part.
COMMITS = (
    # a session's people
    "services.session.start_session",
    "services.session.interrupt_session",
    "services.session.continue_session",
    "services.session.resume_session",
    "core.abandonment.abandon",
    # its holder
    "core.lease.claim",
    "core.lease.renew",
    "core.recovery.recover",
    "core.rounds.record_step",
    "core.backoff.record_failure",
    "core.routing.settle_leftover",
    "core.routing.stop_session",
    "core.routing.release_lease",
    "core.requirements.record_unable",
    "core.dispatch.record_intent",
    "core.dispatch.record_replay",
    "core.dispatch.settle",
    "core.receipted.record_verdict",
    "core.late.record_late",
    "services.proposal._record",
    # decisions, by people and by time
    "core.decisions.decide",
    "core.decisions.revoke",
    "core.decisions.expire",
    "core.questions.answer",
    "core.questions.expire",
    "core.reviewed.expire_proposal",
    "services.proposal.submit_proposal",
    # evidence, and the kill switch
    "core.reconciliation.admit",
    "core.reconciliation.select",
    "core.receipted.record_verdict_unheld",
    "services.pause.wake_held",
    "core.quarantine.quarantine_session",
    "core.repair.execute",
    "core.agreement.escalate",
)
POINTS = tuple(f"{name} {side}" for name in COMMITS for side in (BEFORE_COMMIT, AFTER_COMMIT)) + (
    f"{TOOL} {BEFORE_TOOL}",
    f"{TOOL} {AFTER_TOOL}",
)


def found() -> set[str]:
    """Every function of the runtime that makes a transition, or has fault points of its own."""
    return {name for path in sorted(PACKAGE.rglob("*.py")) for name in _found_in(path)}


def _found_in(path: Path) -> Iterator[str]:
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    if module == "core.transitions":
        return
    tree = ast.parse(path.read_text())
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef):
            for node in ast.walk(outer):
                if isinstance(node, ast.Call) and _called(node) in ("transition", "new_session", "points.reached"):
                    yield f"{module}.{outer.name}"


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func)


def name_of(frame: FrameType | None, side: str) -> str:
    """The name of the point at which a listener was called: past the transition itself and contextlib."""
    while frame is not None and (
        frame.f_globals["__name__"] in ("contextlib", "cayu_runtime.core.transitions", "cayu_runtime.core.points")
    ):
        frame = frame.f_back
    assert frame is not None
    module = frame.f_globals["__name__"].removeprefix("cayu_runtime.")
    return f"{module}.{frame.f_code.co_name} {side}"


def main() -> int:
    for number, point in enumerate(POINTS, start=1):
        print(f"{number:3} {point}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
