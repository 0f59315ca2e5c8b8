"""Every state of every machine has words, and none of them claims more than is known."""

from datetime import UTC, datetime, timedelta

import pytest

from cayu_review import wording
from cayu_review.wording import effect_words, seconds_to_refresh, session_words
from cayu_runtime.contracts import ToolEffect
from cayu_runtime.core import states
from cayu_runtime.models import Approval, Decision, EffectRecord, Session, ToolCall
from cayu_runtime.models.attempt import KINDS

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_every_session_has_words_and_a_rhythm() -> None:
    for state in states.SESSION.names:
        if state != "interrupted":
            assert session_words(Session(state=state), NOON).text
    for interruption in states.INTERRUPTIONS:
        session = Session(state="interrupted", interruption=interruption)
        assert session_words(session, NOON).text
        assert (seconds_to_refresh(session) == 0) == (interruption in states.STOPPED_BY)
    assert seconds_to_refresh(Session(state="completed")) == seconds_to_refresh(Session(state="failed")) == 0


def test_waiting_stopped_crashed_and_the_model_differ_at_one_look() -> None:
    def tone(interruption: str) -> str:
        return session_words(Session(state="interrupted", interruption=interruption), NOON).tone

    for_people = {tone(name) for name in ("approval_required", "user_input_required")}
    stopped = {tone(name) for name in ("operator_requested", "limit_reached", "model_unavailable")}
    crashed = {tone("worker_lost"), session_words(Session(state="failed"), NOON).tone}
    its_model = {session_words(Session(state="pending", model_failures=1), NOON).tone}
    assert [len(tones) for tones in (for_people, stopped, crashed, its_model)] == [1, 1, 1, 1]
    assert len(for_people | stopped | crashed | its_model) == 4


def test_every_session_says_what_it_waits_for_unless_it_is_over() -> None:
    for state in states.SESSION.names:
        if state != "interrupted":
            assert bool(wording.session_next(Session(state=state), NOON)) == (state not in ("completed", "failed"))
    for interruption in states.INTERRUPTIONS:
        assert wording.session_next(Session(state="interrupted", interruption=interruption), NOON)
    assert set(wording.ROUND_WORDS) == set(states.ROUND.names)


def test_only_what_is_held_back_is_looked_at_again_later() -> None:
    later = NOON + timedelta(seconds=9)
    assert wording.tried_again_at(Session(state="pending", runnable_at=later), NOON) == later
    assert wording.session_words(Session(state="pending", runnable_at=later), NOON) is wording.HELD_BACK
    assert "resumed dispatch" in wording.session_next(Session(state="pending", runnable_at=later), NOON)
    assert wording.tried_again_at(Session(state="pending", runnable_at=NOON), NOON) is None
    assert wording.tried_again_at(Session(state="running", runnable_at=None), NOON) is None


def test_every_effect_has_words_and_only_completed_ones_are_done() -> None:
    for state in states.EFFECT.names:
        words = effect_words(EffectRecord(state=state))
        assert ("Done" in words.text) == (state == "completed")
    for verification in ("passed", "failed", "inconclusive"):
        assert effect_words(EffectRecord(state="completed", verification=verification)).text
    assert effect_words(EffectRecord(state="completed")).text == "Done, not verified"


def test_every_call_state_effect_class_and_attempt_has_words() -> None:
    told_with_its_evidence = {"prepared", "completed", "failed", "denied", "blocked"}
    assert set(wording.CALL_WORDS) | told_with_its_evidence == set(states.CALL.names)
    assert set(wording.BLOCKED_WORDS) == set(states.BLOCKED_REASONS)
    assert set(wording.EFFECT_NAMES) == set(wording.EFFECT_MEANING) == {effect.value for effect in ToolEffect}
    assert set(wording.ATTEMPT_NAMES) == set(KINDS)


@pytest.mark.parametrize("state", sorted(set(states.APPROVAL.names) - {"consumed"}))
def test_no_approval_that_was_not_used_claims_that_something_was_sent(state: str) -> None:
    decided = Decision(actor_name="erin", verdict="approve") if state in ("approved", "denied", "revoked") else None
    approval = Approval(state=state, expires_at=NOON + timedelta(days=1), decided_by=decided)
    words = wording.approval_words(approval, NOON)
    assert words.text
    assert "Done" not in words.text
    assert words.tone != "good"


def test_a_consumed_approval_tells_what_came_of_it() -> None:
    call = ToolCall(state="outcome_unknown")
    EffectRecord(call=call, state="outcome_unknown")
    approval = Approval(state="consumed", call=call, decided_by=Decision(actor_name="erin"))
    assert wording.approval_words(approval, NOON).text == "Approved by erin. Outcome unknown."
