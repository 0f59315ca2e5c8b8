"""Rival answers, expiries and stops on one question, in both orders."""

from datetime import timedelta
from typing import Any

import pytest
from django_q.models import OrmQ

from cayu_runtime import Call
from cayu_runtime.core import clock, questions
from cayu_runtime.core.questions import Answered
from cayu_runtime.errors import AlreadyDecided, Conflict, QuestionExpired
from cayu_runtime.models import Question, Session
from cayu_runtime.services.question import answer_question
from cayu_runtime.services.session import interrupt_session
from cayu_runtime.tools.ask_user import AskUser
from tests.machine import Counter, Gate, Machine, agent_of
from tests.race.rivals import race, together

pytestmark = pytest.mark.postgres


def asking(machine: Machine, hours: float = 24) -> tuple[Session, Question]:
    call = Call("ask_user", {"question": "How much?", "expires_in_hours": hours})
    session = machine.start(agent_of(AskUser(), rounds=[[call]]))
    return session, Question.objects.get(session=session)


def reply(machine: Machine, question: Question, text: str, by: Any = None) -> Answered:
    digest = bytes(question.digest).hex()
    return answer_question(machine.tenant, by or machine.bob, question.pk, answer=text, digest=digest)


@pytest.mark.parametrize("first, second", [("5", "6"), ("5", "5")])
def test_the_second_of_two_answers_waits_and_is_told_the_winner(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    session, question = asking(machine)
    won, lost = race(
        monkeypatch,
        lambda: reply(machine, question, first, machine.bob),
        lambda: reply(machine, question, second, machine.carol),
    )
    assert isinstance(won, Answered)
    assert isinstance(lost, AlreadyDecided)
    assert (lost.details["winner"]["by"], lost.details["winner"]["answer"]) == ("bob", "5")
    machine.run(session)
    assert session.state == "completed"
    assert [part["content"]["content"] for part in machine.transcript(session)[-2]["parts"]] == ["5"]


def test_the_same_person_twice_at_one_moment_is_one_answer_and_its_replay(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, question = asking(machine)
    first, second = race(
        monkeypatch, lambda: reply(machine, question, "5"), lambda: reply(machine, question, "5")
    )  # fmt: skip
    assert (first.replay, second.replay) == (False, True)
    assert machine.events(session).count("question.answered") == 1


def test_of_twenty_people_who_answer_at_one_moment_one_does(machine: Machine) -> None:
    session, question = asking(machine)
    people = [machine.person(f"person-{n}") for n in range(20)]
    rung = OrmQ.objects.count()
    outcomes = together(20, lambda n: reply(machine, question, f"{n}", people[n]))
    losers = [outcome for outcome in outcomes if isinstance(outcome, AlreadyDecided)]
    question.refresh_from_db()
    assert sum(isinstance(outcome, Answered) for outcome in outcomes) == 1
    assert len(losers) == 19
    assert {loser.details["winner"]["answer"] for loser in losers} == {question.answer}
    assert OrmQ.objects.count() - rung == 1
    assert machine.events(session).count("session.resumed") == 1


@pytest.mark.parametrize("answer_first", [True, False])
def test_an_answer_and_its_expiry_leave_one_truth(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, answer_first: bool
) -> None:
    session, question = asking(machine, hours=1)

    def answer() -> Any:
        return reply(machine, question, "5")

    def expire() -> Any:
        monkeypatch.setattr(clock, "_offset", timedelta(hours=2))
        return questions.expire(session.pk, question.pk)

    first, second = race(monkeypatch, answer, expire) if answer_first else race(monkeypatch, expire, answer)
    if answer_first:
        assert isinstance(first, Answered)
        assert second is False, "what was answered in time does not expire"
    else:
        assert first is True
        assert isinstance(second, QuestionExpired)
    machine.run(session)
    question.refresh_from_db()
    assert session.state == "completed"
    assert (question.state, question.answer) == (("answered", "5") if answer_first else ("expired", None))
    assert machine.calls(session)[0].state == ("completed" if answer_first else "expired")


@pytest.mark.parametrize("answer_first", [True, False])
def test_an_answer_and_a_stop_leave_one_truth(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, answer_first: bool
) -> None:  # B14
    session, question = asking(machine)

    def answer() -> Any:
        return reply(machine, question, "5")

    def stop() -> Any:
        return interrupt_session(machine.tenant, machine.alice, session.session_id)

    first, second = race(monkeypatch, answer, stop) if answer_first else race(monkeypatch, stop, answer)
    session.refresh_from_db()
    question.refresh_from_db()
    assert (session.state, session.interruption) == ("interrupted", "operator_requested")
    if answer_first:
        assert (question.state, machine.calls(session)[0].state) == ("answered", "completed")
        assert isinstance(first, Answered)
        assert isinstance(second, Session)
    else:
        assert (question.state, machine.calls(session)[0].state) == ("cancelled", "cancelled")
        assert isinstance(second, Conflict)
        assert "cancelled" in second.message


@pytest.mark.parametrize("answer_first", [True, False])
def test_an_answer_and_a_decision_of_one_round_both_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, answer_first: bool
) -> None:
    pay = Counter()
    calls = [Call("ask_user", {"question": "How much?"}), Call("move_money", {"to": "x"})]
    session = machine.start(agent_of(AskUser(), pay, policy=Gate(move_money="require_approval"), rounds=[calls]))
    question, approval = Question.objects.get(session=session), machine.approvals(session)[0]
    rung = OrmQ.objects.count()

    def answer() -> Any:
        return reply(machine, question, "5")

    def approve() -> Any:
        return machine.decide(approval, "approve")

    race(monkeypatch, answer, approve) if answer_first else race(monkeypatch, approve, answer)
    assert OrmQ.objects.count() - rung == 1, "the last of the two wakes a worker"
    machine.run(session)
    assert (session.state, pay.count) == ("completed", 1)
