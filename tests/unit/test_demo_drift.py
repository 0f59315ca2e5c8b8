"""What the drift agent does next, from what came of the steps before: unknown is never healthy, and never done."""

from __future__ import annotations

from typing import Any

import pytest

from cayu_project.demo.drift import HOW, correct_drift
from cayu_runtime import Call, Outcome, Turn

FIELDS = {"action_id": "change-0007", "target": "demo", "reason": "observed_drift"}


def outcome(tool: str, status: str = "completed", content: str = "", **structured: Any) -> Outcome:
    return Outcome(tool, "c", status, content, {"structured": structured})


DRIFTED = outcome("observe_target", target="demo", observation=7, drifted=True)
ON_RECORD = outcome("record_proposal", recorded=True, fields=FIELDS)
APPLIED = outcome("apply_change", **FIELDS, status_="applied")
VERIFIED = outcome("verify_change", verified=True)


def test_it_looks_first() -> None:
    assert correct_drift(Turn("Please check Demo.")).calls == (Call("observe_target", {"target": "demo"}),)


@pytest.mark.parametrize("text", ["hello", "check", "don't check demo", "check demo and fix it"])
def test_it_asks_again_when_it_cannot_read_all_of_it(text: str) -> None:
    assert correct_drift(Turn(text)).text == HOW


def test_it_proposes_what_it_saw_then_asks_for_exactly_that_and_a_check() -> None:
    assert correct_drift(Turn("check demo", (DRIFTED,))).calls == (Call("record_proposal", FIELDS),)
    calls = correct_drift(Turn("check demo", (DRIFTED, ON_RECORD))).calls
    assert calls == (Call("apply_change", FIELDS), Call("verify_change", {"action_id": "change-0007"}))


@pytest.mark.parametrize(
    "outcomes, said",
    [
        ((outcome("observe_target", target="demo", observation=1, drifted=False),), "demo is as wanted."),
        ((outcome("observe_target", "failed", "No route."),), "I can't tell whether it has drifted. No route."),
        ((DRIFTED, outcome("record_proposal", "failed", "It stands already.")), "I do not ask for it. It stands"),
        ((DRIFTED, ON_RECORD, outcome("apply_change", "denied", "Denied by bob.")), "Nothing was changed (denied)."),
        ((DRIFTED, ON_RECORD, APPLIED, VERIFIED), "a new look verified it"),
        ((DRIFTED, ON_RECORD, APPLIED, outcome("verify_change", "failed", "Lost.")), "but is not verified. Lost."),
        ((DRIFTED, ON_RECORD, APPLIED, outcome("verify_change", verified=False)), "but is not verified."),
        ((DRIFTED, ON_RECORD, APPLIED), "but is not verified. It was not checked."),
    ],
)
def test_it_says_what_is_so(outcomes: tuple[Outcome, ...], said: str) -> None:
    reply = correct_drift(Turn("check demo", outcomes))
    assert reply.calls == ()
    assert said in reply.text
