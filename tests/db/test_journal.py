"""Evidence from a tool's own journal is evidence like any other (DESIGN §7): a person asks, the same rules hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cayu_runtime import Disposition, Inquiry, JournalEvidence, JournalReconciler, ToolResult
from cayu_runtime.models import Attempt, Event
from tests.db.test_reconciliation import ended
from tests.machine import Machine
from tests.settling import DONE, Downstream, bring, long_after, look_up, unknown

pytestmark = pytest.mark.django_db(transaction=True)
REFUSED = ToolResult("The drive was full.", is_error=True)


class Journal(JournalReconciler):
    """Says what the test wrote into it."""

    def __init__(self, *entries: JournalEvidence | Callable[[Inquiry], Any] | None) -> None:
        self.entries = list(entries)

    def read(self, inquiry: Inquiry) -> JournalEvidence | None:
        entry = self.entries.pop(0)
        return entry(inquiry) if callable(entry) else entry


def confirmed(result: ToolResult) -> JournalEvidence:
    return JournalEvidence(Disposition.CONFIRMED, result, "Entry 12.", {"entry": 12})


@pytest.mark.parametrize("result, state, ends", [(DONE, "completed", "completed"), (REFUSED, "rejected", "failed")])
def test_a_confirmed_entry_settles_the_call_without_running_it(
    machine: Machine, result: ToolResult, state: str, ends: str
) -> None:
    tool = Downstream(Journal(confirmed(result)))
    session, effect = unknown(machine, tool)
    look_up(machine, effect)
    machine.run(session)
    effect.refresh_from_db()
    (call,) = machine.calls(session)
    assert (effect.state, effect.receipt["source"], call.state, tool.count) == (state, "journal", ends, 1)
    assert (call.result["content"], session.state) == (result.content, "completed")
    assert machine.events(session).count("tool.effect.receipt.validated") == 1


def test_what_had_not_started_counts_as_an_absence_does(machine: Machine) -> None:
    """Not while its worker may still begin; then a fresh approval, and never by itself."""
    entry = JournalEvidence(Disposition.NOT_STARTED, DONE, "No entry was begun.")
    tool = Downstream(Journal(entry, entry, entry))
    session, effect = unknown(machine, tool)
    assert look_up(machine, effect).finding == "not_found"
    ended(effect)
    assert look_up(machine, effect).finding == "not_found"  # before deadline and grace
    with long_after():
        assert look_up(machine, effect).finding == "absent"
    effect.refresh_from_db()
    machine.run(session)
    assert (effect.state, tool.count, len(machine.approvals(session))) == ("safe_to_retry", 1, 1)


@pytest.mark.parametrize(
    "entry", [JournalEvidence(Disposition.UNRESOLVED, DONE, "Two entries."), None], ids=["unresolved", "none"]
)
def test_anything_else_leaves_it_as_uncertain_as_it_was(machine: Machine, entry: JournalEvidence | None) -> None:
    session, effect = unknown(machine, Downstream(Journal(entry)))
    done = look_up(machine, effect)
    effect.refresh_from_db()
    assert (done.finding, effect.state, effect.receipt) == ("not_found", "outcome_unknown", None)
    attempt = Attempt.objects.get(effect=effect, kind="lookup")
    assert attempt.evidence["evidence"].get("disposition") == (entry.disposition if entry else None)
    assert Event.objects.get(session=session, type="tool.effect.reconciliation.observed").payload["effect"]


def test_a_journal_that_cannot_be_read_goes_to_a_person(machine: Machine) -> None:
    def breaks(inquiry: Inquiry) -> None:
        raise OSError("disk")

    _, effect = unknown(machine, Downstream(Journal(breaks)))
    assert look_up(machine, effect).finding == "unavailable"
    effect.refresh_from_db()
    assert effect.state == "manual_review"


def test_a_person_s_text_is_no_journal(machine: Machine) -> None:
    _, effect = unknown(machine, Downstream(Journal()))
    done = bring(machine, effect, {"disposition": "confirmed", "content": DONE.content})
    effect.refresh_from_db()
    assert (done.finding, effect.state) == ("unsupported", "outcome_unknown")


@pytest.mark.parametrize(
    "fields, error",
    [({"disposition": "confirmed"}, TypeError), ({"disposition": Disposition.CONFIRMED}, ValueError)],
    ids=str,
)
def test_evidence_that_contradicts_itself_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="JournalEvidence"):
        JournalEvidence(**fields)
