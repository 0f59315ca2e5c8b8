"""The states and moves of DESIGN §3, written down a second time by hand: code and page must say the same."""

from __future__ import annotations

import pytest

from cayu_runtime.core import states
from cayu_runtime.core.states import Machine

# One line for each move of the page: `source → targets`. A state that only ends stands without arrow.

SESSION = """
pending → running interrupted failed
running → pending interrupted interrupting completed failed
interrupting → interrupted failed
interrupted → interrupted pending completed failed
completed → pending
failed → pending
"""
# "anything open → failed by abandon" gives the moves of pending, running, interrupting and interrupted to failed;
# "its client finishes it" interrupted → completed; "`interruption`, recomputed" interrupted → interrupted.

ROUND = """
waiting → executing settled
executing → settled waiting
settled
"""

CALL = """
awaiting_approval → prepared denied expired cancelled blocked outcome_unknown
awaiting_answer → completed expired cancelled
prepared → dispatched denied expired blocked failed completed outcome_unknown
dispatched → completed failed outcome_unknown dispatched
outcome_unknown → completed failed awaiting_approval
blocked
completed
failed
denied
expired
cancelled
"""

EFFECT = """
proposed → authorized abandoned outcome_unknown
authorized → intent_recorded abandoned outcome_unknown rejected manual_review
intent_recorded → receipted completed rejected outcome_unknown intent_recorded
receipted → completed manual_review
outcome_unknown → completed receipted rejected safe_to_retry manual_review
manual_review → completed receipted rejected safe_to_retry
safe_to_retry → authorized rejected manual_review
completed
rejected
abandoned
"""

APPROVAL = """
pending → approved denied expired cancelled void
approved → consumed revoked expired cancelled void
denied
consumed
revoked
expired
cancelled
void
"""

PROPOSAL = """
open → used withdrawn expired
used
withdrawn
expired
"""

QUESTION = """
pending → answered expired cancelled
answered
expired
cancelled
"""

ATTEMPT = """
admitted → selected superseded
selected
superseded
"""

PAGE = (
    (states.SESSION, SESSION),
    (states.ROUND, ROUND),
    (states.CALL, CALL),
    (states.EFFECT, EFFECT),
    (states.APPROVAL, APPROVAL),
    (states.PROPOSAL, PROPOSAL),
    (states.QUESTION, QUESTION),
    (states.ATTEMPT, ATTEMPT),
)


def moves_of(page: str) -> dict[str, set[str]]:
    lines = (line.partition("→") for line in page.strip().splitlines())
    return {source.strip(): set(targets.split()) for source, _, targets in lines}


def test_the_page_covers_every_machine() -> None:
    assert tuple(machine for machine, _ in PAGE) == states.MACHINES


@pytest.mark.parametrize("machine, page", PAGE, ids=lambda value: getattr(value, "name", ""))
def test_code_and_page_list_the_same_moves(machine: Machine, page: str) -> None:
    assert {name: set(state.moves) for name, state in machine.states.items()} == moves_of(page)


each_machine = pytest.mark.parametrize("machine", states.MACHINES, ids=lambda machine: machine.name)


@each_machine
def test_no_move_is_listed_twice(machine: Machine) -> None:
    for name, state in machine.states.items():
        assert len(state.moves) == len(set(state.moves)), name


@each_machine
def test_every_move_leads_to_a_state_of_the_machine(machine: Machine) -> None:
    assert {target for state in machine.states.values() for target in state.moves} <= set(machine.names)


@each_machine
def test_every_state_is_reached_from_a_first_one(machine: Machine) -> None:
    assert set(machine.initial) <= set(machine.names)
    reached: set[str] = set()
    waiting = list(machine.initial)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += machine.states[name].moves
    assert reached == set(machine.names)


@each_machine
def test_every_state_says_in_a_sentence_what_it_means(machine: Machine) -> None:
    for name, state in machine.states.items():
        assert state.note[:1].isupper(), name
        assert state.note.endswith("."), name


@each_machine
def test_a_state_that_is_not_final_says_what_a_crash_means(machine: Machine) -> None:
    for name, state in machine.states.items():
        if state.moves:
            assert "crash" in state.note, f"{name}: {state.note}"


@pytest.mark.parametrize(
    "machine, final",
    [
        (states.SESSION, set()),  # a message or a resume can always continue it
        (states.ROUND, {"settled"}),
        (states.CALL, {"blocked", "completed", "failed", "denied", "expired", "cancelled"}),
        (states.EFFECT, {"completed", "rejected", "abandoned"}),
        (states.APPROVAL, {"denied", "consumed", "revoked", "expired", "cancelled", "void"}),
        (states.PROPOSAL, {"used", "withdrawn", "expired"}),
        (states.QUESTION, {"answered", "expired", "cancelled"}),
        (states.ATTEMPT, {"selected", "superseded"}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_final_states_have_no_way_out(machine: Machine, final: set[str]) -> None:
    assert set(machine.final) == final
    for source in final:
        assert not any(machine.allows(source, target) for target in machine.names)


@pytest.mark.parametrize(
    "machine, initial",
    [
        (states.SESSION, {"pending", "interrupted"}),  # client-driven ones begin by waiting for their client
        (states.ROUND, {"waiting", "executing", "settled"}),
        (states.CALL, {"blocked", "completed", "awaiting_approval", "awaiting_answer", "prepared"}),
        (states.EFFECT, {"proposed", "authorized"}),
        (states.APPROVAL, {"pending", "approved"}),  # what a standing grant lets pass is born approved
        (states.PROPOSAL, {"open"}),
        (states.QUESTION, {"pending"}),
        (states.ATTEMPT, {"admitted", "selected", "superseded"}),  # late and supplied evidence is born closed
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_rows_are_born_in_the_states_of_the_page(machine: Machine, initial: set[str]) -> None:
    assert set(machine.initial) == initial


def test_interruptions_are_listed_in_the_order_in_which_they_apply() -> None:
    page = """effect_outcome_unknown user_input_required approval_required client_execution limit_reached
        model_unavailable worker_lost operator_requested"""
    assert tuple(page.split()) == states.INTERRUPTIONS


def test_what_a_person_or_a_message_lifts_is_kept_apart_from_what_a_gate_asks() -> None:
    assert states.STOPPED_BY == ("limit_reached", "model_unavailable", "worker_lost", "operator_requested")
    assert set(states.STOPPED_BY) < set(states.INTERRUPTIONS)


def test_a_call_is_blocked_for_a_reason_of_the_page() -> None:
    assert set(states.BLOCKED_REASONS) == {"invalid", "policy", "denied_before", "linked", "stale", "limit_reached"}


def test_groups_of_states_follow_from_the_moves() -> None:
    assert set(states.OPEN_ROUND) == set(states.ROUND.names) - set(states.ROUND.final)
    assert set(states.OPEN_CALL) == set(states.CALL.names) - set(states.CALL.final)
    assert set(states.CLOSED_CALL) == set(states.CALL.final)
    assert set(states.CLOSED_EFFECT) == set(states.EFFECT.final)
    assert states.LEASED == ("running", "interrupting")


def test_nothing_that_was_dispatched_can_become_as_if_it_never_was() -> None:
    """`abandoned` means never dispatched, so no state that follows a dispatch leads there."""
    after_dispatch = {"intent_recorded", "receipted", "outcome_unknown", "manual_review", "safe_to_retry"}
    for state in after_dispatch:
        assert not states.EFFECT.allows(state, "abandoned"), state


def test_only_authority_leads_to_a_dispatch() -> None:
    assert sources_of(states.EFFECT, "intent_recorded") == {"authorized", "intent_recorded"}
    assert sources_of(states.EFFECT, "authorized") == {"proposed", "safe_to_retry"}
    assert sources_of(states.CALL, "dispatched") == {"prepared", "dispatched"}
    assert sources_of(states.APPROVAL, "consumed") == {"approved"}


def sources_of(machine: Machine, target: str) -> set[str]:
    return {name for name, state in machine.states.items() if target in state.moves}
