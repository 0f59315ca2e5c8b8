"""A question from an agent's call to the answer it goes on with: asked once, answered once, expired, withdrawn."""

from datetime import timedelta
from typing import Any

import pytest
from django_q.models import OrmQ

from cayu_runtime import Call, ToolEffect
from cayu_runtime.contracts.question import MAX_ANSWER
from cayu_runtime.core import clock
from cayu_runtime.errors import (
    AlreadyDecided,
    Conflict,
    DigestMismatch,
    InvalidRequest,
    NotFound,
    QuestionExpired,
)
from cayu_runtime.models import Event, Question, Session, ToolCall, ToolRound
from cayu_runtime.services.question import answer_question
from cayu_runtime.services.session import abandon_session, interrupt_session
from cayu_runtime.tools.ask_user import AskUser
from cayu_runtime.worker.sweep import expire_due
from tests.machine import Counter, Gate, Machine, agent_of

HOW_MUCH = Call("ask_user", {"question": "How much?"})
WHICH = Call("ask_user", {"question": "Which?", "choices": ["the red one", "the blue one"]})


def asking(machine: Machine, *calls: Call, tools: tuple[Any, ...] = (), **answers: Any) -> Session:
    return machine.start(agent_of(AskUser(), *tools, policy=Gate(**answers), rounds=[list(calls or [HOW_MUCH])]))


def questions(session: Session) -> list[Question]:
    return list(Question.objects.filter(session=session).order_by("call__position"))


def reply(machine: Machine, question: Question, text: str, by: Any = None, **changes: Any) -> Any:
    seen = {"answer": text, "digest": bytes(question.digest).hex(), **changes}
    return answer_question(machine.tenant, by or machine.bob, question.pk, **seen)


def told(machine: Machine, session: Session) -> list[Any]:
    return [part["content"] for part in machine.transcript(session)[-2]["parts"]]


def test_a_question_waits_as_a_row_and_its_call_never_runs(machine: Machine) -> None:
    session = asking(machine)
    (question,), (call,) = questions(session), machine.calls(session)
    assert (session.state, session.interruption, session.runnable_at) == ("interrupted", "user_input_required", None)
    assert (call.state, call.effect_class, call.runs, call.round.state) == ("awaiting_answer", "none", 0, "waiting")
    assert (question.state, question.text, question.choices) == ("pending", "How much?", None)
    assert (question.agent, question.task, question.requester) == (session.agent, "go", "user:alice")
    assert question.expires_at - question.created_at == timedelta(days=7)
    assert machine.events(session)[-2:] == ["question.asked", "session.interrupted"]
    machine.run(session)
    assert session.state == "interrupted"


def test_the_answer_is_the_call_s_result_and_the_agent_goes_on(machine: Machine) -> None:
    session = asking(machine)
    question = questions(session)[0]
    rung = OrmQ.objects.count()
    answered = reply(machine, question, "25.50")
    assert (answered.replay, answered.question.state, answered.question.answer) == (False, "answered", "25.50")
    session.refresh_from_db()
    assert (session.state, OrmQ.objects.count() - rung) == ("pending", 1)
    machine.run(session)
    assert (session.state, machine.last_text(session)) == ("completed", "ask_user: completed.")
    (result,) = told(machine, session)
    assert (result["status"], result["content"]) == ("completed", "25.50")
    assert result["structured"] == {"answer": "25.50", "answered_by": "bob"}
    question.refresh_from_db()
    assert (question.answered_by, question.answered_by_name) == ("user:bob", "bob")
    assert question.closed_at is not None
    assert ToolCall.objects.get(session=session).runs == 0


def test_the_event_says_who_answered_what_was_asked_and_by_which_door(machine: Machine) -> None:
    session = asking(machine)
    question = questions(session)[0]
    reply(machine, question, "my own words")
    payload = Event.objects.get(session=session, type="question.answered").payload
    assert (payload["by"], payload["by_name"], payload["source"]) == ("user:bob", "bob", "web")
    assert (payload["roles"], payload["digest"]) == (["approver"], bytes(question.digest).hex())
    assert "my own words" not in str(payload)


def test_only_one_answer_counts_and_the_others_are_told_whose(machine: Machine) -> None:
    session = asking(machine)
    question = questions(session)[0]
    reply(machine, question, "5")
    events = Event.objects.count()
    for who, text in ((machine.carol, "6"), (machine.carol, "5"), (machine.bob, "6")):
        with pytest.raises(AlreadyDecided, match=r"Already answered by bob at .* UTC") as refused:
            reply(machine, question, text, who)
        assert refused.value.details["winner"]["answer"] == "5"
        assert refused.value.details["winner"]["by"] == "bob"
    assert Event.objects.count() == events
    question.refresh_from_db()
    assert question.answer == "5"


def test_the_same_answer_of_the_same_person_again_is_the_record(machine: Machine) -> None:  # as A5
    session = asking(machine)
    question = questions(session)[0]
    reply(machine, question, "5")
    machine.run(session)
    events = Event.objects.count()
    again = reply(machine, question, " 5\u200b ")
    assert (again.replay, again.question.pk, again.question.answer) == (True, question.pk, "5")
    assert Event.objects.count() == events
    with pytest.raises(AlreadyDecided):
        reply(machine, question, "5", digest="00" * 32)


@pytest.mark.parametrize("digest", ["00" * 32, "ab" * 32])
def test_another_digest_than_the_question_s_answers_nothing(machine: Machine, digest: str) -> None:
    question = questions(asking(machine))[0]
    with pytest.raises(DigestMismatch):
        reply(machine, question, "5", digest=digest)
    question.refresh_from_db()
    assert question.state == "pending"


@pytest.mark.parametrize("text, digest", [("", None), (" \u200b\x07\n", None), ("x" * (MAX_ANSWER + 1), None),
                                          ("5", ""), ("5", "zz"), ("5", "abcd")])  # fmt: skip
def test_what_is_no_answer_is_refused_with_a_sentence(machine: Machine, text: str, digest: str | None) -> None:
    question = questions(asking(machine))[0]
    changes = {} if digest is None else {"digest": digest}
    with pytest.raises(InvalidRequest) as refused:
        reply(machine, question, text, **changes)
    assert refused.value.message.endswith(".")
    question.refresh_from_db()
    assert question.state == "pending"


def test_where_there_are_choices_only_one_of_them_is_an_answer(machine: Machine) -> None:
    session = asking(machine, WHICH)
    question = questions(session)[0]
    assert question.choices == ["the red one", "the blue one"]
    with pytest.raises(InvalidRequest, match="the red one; the blue one"):
        reply(machine, question, "the green one")
    reply(machine, question, "the blue one")
    machine.run(session)
    assert told(machine, session)[0]["content"] == "the blue one"


def test_an_answer_is_kept_clean(machine: Machine) -> None:
    question = questions(asking(machine))[0]
    reply(machine, question, "  a\x07b\u202e\r\nc\ud800 ")
    question.refresh_from_db()
    assert "\x07" not in question.answer
    assert "\u202e" not in question.answer
    assert question.answer.startswith("ab\nc")


def test_another_tenant_s_question_is_not_there(machine: Machine) -> None:
    question = questions(asking(machine))[0]
    other = Machine()
    with pytest.raises(NotFound):
        reply(other, question, "5")


# ---- time ----


def test_time_expires_a_question_and_is_never_an_answer(machine: Machine) -> None:
    session = asking(machine, Call("ask_user", {"question": "How much?", "expires_in_hours": 1}))
    question = questions(session)[0]
    with clock.shifted(timedelta(minutes=59)):
        assert expire_due() == 0
    with clock.shifted(timedelta(hours=1, seconds=1)):
        assert expire_due() == 1
        assert expire_due() == 0
        machine.run(session)
    question.refresh_from_db()
    assert (question.state, question.answer, question.answered_by) == ("expired", None, "")
    assert machine.calls(session)[0].state == "expired"
    (result,) = told(machine, session)
    assert (result["status"], result["executed"]) == ("expired", False)
    assert "Nobody answered until" in result["reason"]
    with pytest.raises(QuestionExpired):
        reply(machine, question, "5")


def test_an_answer_after_its_time_is_refused_and_leaves_a_trace(machine: Machine) -> None:  # as A12
    session = asking(machine)
    question = questions(session)[0]
    with clock.shifted(timedelta(days=7, seconds=1)), pytest.raises(QuestionExpired):
        reply(machine, question, "5")
    event = Event.objects.get(session=session, type="question.expired")
    assert (event.payload["tried_by"], event.payload["tried_by_name"]) == ("user:bob", "bob")
    question.refresh_from_db()
    session.refresh_from_db()
    assert (question.state, session.state) == ("expired", "pending")


def test_a_question_waits_for_days_and_its_agent_is_rebuilt_meanwhile(machine: Machine) -> None:
    session = asking(machine, Call("ask_user", {"question": "How much?", "expires_in_hours": 720}))
    agent_of(AskUser())
    with clock.shifted(timedelta(days=29)):
        assert expire_due() == 0
        reply(machine, questions(session)[0], "5")
        machine.run(session)
    assert session.state == "completed"


# ---- what is asked ----


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"question": ""}, {"question": " \u200b\u202e\n"}, {"question": "x" * 2001}, {"question": 7},
        {"question": "a?", "choices": []}, {"question": "a?", "choices": ["one"]},
        {"question": "a?", "choices": ["", "b"]}, {"question": "a?", "choices": [" \u200b", "b"]},
        {"question": "a?", "choices": ["b", "b"]}, {"question": "a?", "choices": ["b", "b\u200b"]},
        {"question": "a?", "choices": [str(n) for n in range(21)]}, {"question": "a?", "choices": ["x" * 201, "y"]},
        {"question": "a?", "choices": "ab"}, {"question": "a?", "expires_in_hours": 0},
        {"question": "a?", "expires_in_hours": 0.0001},
        {"question": "a?", "expires_in_hours": -1}, {"question": "a?", "expires_in_hours": 721},
        {"question": "a?", "expires_in_hours": "1"}, {"question": "a?", "for": "bob"},
    ],
    ids=lambda arguments: ",".join(f"{k}={str(v)[:12]!a}" for k, v in arguments.items()) or "nothing",
)  # fmt: skip
def test_a_malformed_question_is_blocked_and_nobody_is_asked(machine: Machine, arguments: dict[str, Any]) -> None:
    session = asking(machine, Call("ask_user", arguments))
    call = machine.calls(session)[0]
    assert (call.state, call.reason, questions(session)) == ("blocked", "invalid", [])
    assert session.state == "completed"
    assert told(machine, session)[0]["reason"]


def test_a_question_is_shown_without_what_cannot_be_seen(machine: Machine) -> None:
    arguments = {"question": "How\u202e much\x07?\n\nIn euros.", "choices": ["a  lot\n", "little\u200b"]}
    question = questions(asking(machine, Call("ask_user", arguments)))[0]
    assert question.text == "How much?\n\nIn euros."
    assert question.choices == ["a lot", "little"]


def test_the_digest_is_of_the_text_the_choices_and_the_operation(machine: Machine) -> None:
    other = Call("ask_user", {"question": "Which?", "choices": ["the red one", "the green one"]})
    session = asking(machine, WHICH, WHICH, other, HOW_MUCH)
    assert len({bytes(question.digest) for question in questions(session)}) == 4


def test_a_policy_may_forbid_to_ask_and_one_that_wants_a_person_has_one(machine: Machine) -> None:
    forbidden = asking(machine, ask_user="deny")
    assert (machine.calls(forbidden)[0].state, questions(forbidden)) == ("blocked", [])
    gated = asking(machine, ask_user="require_approval")
    assert machine.calls(gated)[0].state == "awaiting_answer"
    assert machine.approvals(gated) == []


# ---- rounds ----


def test_nothing_of_a_round_runs_while_a_question_of_it_waits(machine: Machine) -> None:
    look = Counter("look", effect=ToolEffect.NONE)
    pay = Counter("move_money")
    calls = (Call("look", {"to": "a"}), HOW_MUCH, Call("move_money", {"to": "x"}), WHICH)
    session = asking(machine, *calls, tools=(look, pay), move_money="require_approval")
    how_much, which = questions(session)
    assert (session.interruption, look.count) == ("user_input_required", 0)

    reply(machine, how_much, "5")
    machine.run(session)
    assert (session.interruption, look.count, pay.count) == ("user_input_required", 0, 0)
    reply(machine, which, "the red one")
    machine.run(session)
    assert (session.state, session.interruption) == ("interrupted", "approval_required")
    assert (look.count, pay.count) == (0, 0)
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.state, look.count, pay.count) == ("completed", 1, 1)
    assert [result["status"] for result in told(machine, session)] == ["completed"] * 4
    assert [result["content"] for result in told(machine, session)] == ["done", "5", "done", "the red one"]


def test_the_approval_may_come_before_the_answer(machine: Machine) -> None:
    pay = Counter("move_money")
    session = asking(machine, HOW_MUCH, Call("move_money", {"to": "x"}), tools=(pay,), move_money="require_approval")
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.interruption, pay.count) == ("user_input_required", 0)
    reply(machine, questions(session)[0], "5")
    machine.run(session)
    assert (session.state, pay.count) == ("completed", 1)


def test_questions_of_one_round_end_each_for_itself(machine: Machine) -> None:
    short = Call("ask_user", {"question": "Quick?", "expires_in_hours": 1})
    session = asking(machine, short, HOW_MUCH)
    with clock.shifted(timedelta(hours=2)):
        assert expire_due() == 1
        session.refresh_from_db()
        assert session.interruption == "user_input_required"
        reply(machine, questions(session)[1], "5")
        machine.run(session)
    assert [result["status"] for result in told(machine, session)] == ["expired", "completed"]


def test_a_round_of_answers_alone_settles_with_the_last_one(machine: Machine) -> None:
    session = asking(machine, HOW_MUCH, WHICH)
    first, second = questions(session)
    reply(machine, second, "the red one")
    assert ToolRound.objects.get(session=session).state == "waiting"
    reply(machine, first, "5")
    assert ToolRound.objects.get(session=session).state == "settled"
    roles = [message.get("kind") for message in machine.transcript(session)]
    assert roles == ["request", "response", "request"], "the results stand in the transcript before a worker came"


def test_a_stop_withdraws_what_is_asked(machine: Machine) -> None:
    session = asking(machine, HOW_MUCH, WHICH)
    interrupt_session(machine.tenant, machine.alice, session.session_id)
    session.refresh_from_db()
    assert (session.state, session.interruption) == ("interrupted", "operator_requested")
    assert {question.state for question in questions(session)} == {"cancelled"}
    assert {call.state for call in machine.calls(session)} == {"cancelled"}
    with pytest.raises(Conflict, match="This question is cancelled"):
        reply(machine, questions(session)[0], "5")
    assert expire_due() == 0


def test_giving_a_session_up_withdraws_what_is_asked(machine: Machine) -> None:
    session = asking(machine, HOW_MUCH, WHICH)
    reply(machine, questions(session)[0], "5")
    abandon_session(machine.tenant, machine.bob, session.session_id, reason="Nobody needs it.")
    session.refresh_from_db()
    assert session.state == "failed"
    assert [question.state for question in questions(session)] == ["answered", "cancelled"]
    with pytest.raises(Conflict, match="This question is cancelled"):
        reply(machine, questions(session)[1], "the red one")
