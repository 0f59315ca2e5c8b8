"""What the demo's agent reads out of what people type: all of it, or it asks again."""

import pytest

from cayu_project.demo.agents import HOW, refunds
from cayu_runtime import Call, Outcome, Turn

NO_REASON = "no reason given"


def asked(text: str) -> list[tuple[str, str, str, str]]:
    calls = refunds(Turn(text)).calls
    return [tuple(call.arguments[name] for name in ("order_id", "amount", "reason", "simulate")) for call in calls]


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("refund order 1042 25.50 because damaged", [("1042", "25.50", "damaged", "")]),
        ("Please refund order A-7, €3 because it came late.", [("A-7", "3.00", "it came late", "")]),
        ("refund order 8 4.5", [("8", "4.50", NO_REASON, "")]),
        ("refund order 8 4 because a and b", [("8", "4.00", "a and b", "")]),
        ("refund order 8 4 because late and lose the answer", [("8", "4.00", "late", "drop_after_commit")]),
        ("refund order 10 1 and refund order 11 2", [("10", "1.00", NO_REASON, ""), ("11", "2.00", NO_REASON, "")]),
        ("refund order 9 3 because late;refund order 10 4", [("9", "3.00", "late", ""), ("10", "4.00", NO_REASON, "")]),
    ],
)  # fmt: skip
def test_reads_every_refund_that_is_asked_for(text: str, wanted: list[tuple[str, str, str, str]]) -> None:
    assert asked(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["hello", "don't refund order 18 6.00", "refund order 5 0", "refund order 5 0.00", "refund order 5 1.234",
     "refund order 5 -3", "refund order 5 1 because x; hello", "so: refund order 5 1", "refund 0", "refunded order 5",
     "refund order 5 and order 6", ""],
)  # fmt: skip
def test_asks_again_when_it_cannot_read_all_of_it(text: str) -> None:
    reply = refunds(Turn(text))
    assert (reply.calls, reply.text) == ((), HOW)


@pytest.mark.parametrize(
    "text, questions",
    [
        ("refund order 7", ["How much is to be refunded for order 7?"]),
        ("Please refund order A-7 because it came late.", ["How much is to be refunded for order A-7?"]),
        ("refund order 7 and lose the answer", ["How much is to be refunded for order 7?"]),
        ("refund 25.50", ["Which order is to be refunded by 25.50?"]),
        ("refund an order", ["Which order is to be refunded?", "How much is to be refunded?"]),
        ("refund", ["Which order is to be refunded?", "How much is to be refunded?"]),
        ("refund order 5 1 because x; refund order 6", ["How much is to be refunded for order 6?"]),
    ],
)  # fmt: skip
def test_asks_a_person_for_what_it_was_not_told(text: str, questions: list[str]) -> None:
    assert refunds(Turn(text)).calls == tuple(Call("ask_user", {"question": question}) for question in questions)


def answered(text: str, *answers: str, status: str = "completed") -> Turn:
    return Turn(text, tuple(Outcome("ask_user", f"c{n}", status, answer) for n, answer in enumerate(answers)))


@pytest.mark.parametrize(
    "text, answers, wanted",
    [
        ("refund order 7", ["3"], [("7", "3.00", NO_REASON, "")]),
        ("refund order 7 because late and lose the answer", ["€ 3.5 "], [("7", "3.50", "late", "drop_after_commit")]),
        ("refund 25.50", ["Order A-7."], [("A-7", "25.50", NO_REASON, "")]),
        ("refund", ["7", "3 eur"], [("7", "3.00", NO_REASON, "")]),
        ("refund order 5 1; refund order 6", ["2"], [("5", "1.00", NO_REASON, ""), ("6", "2.00", NO_REASON, "")]),
    ],
)  # fmt: skip
def test_goes_on_with_the_answers(text: str, answers: list[str], wanted: list[tuple[str, str, str, str]]) -> None:
    calls = refunds(answered(text, *answers)).calls
    assert [tuple(call.arguments.values()) for call in calls] == wanted


@pytest.mark.parametrize("answer", ["a lot", "0", "-3", "3 or 4", "7; refund order 8"])
def test_an_answer_that_it_cannot_read_refunds_nothing(answer: str) -> None:
    reply = refunds(answered("refund order 7", answer))
    assert reply.calls == ()
    assert f"I can't read “{answer}” as an amount" in reply.text


def test_no_answer_refunds_nothing_and_says_so() -> None:
    reply = refunds(answered("refund order 7", "Nobody answered until then.", status="expired"))
    assert (reply.calls, reply.text) == (
        (), "No refund was made: I was not told the amount. Nobody answered until then.",
    )  # fmt: skip


def test_what_became_of_the_refund_is_said_without_the_question() -> None:
    turn = answered("refund order 7", "3")
    denied = Outcome("refund_order", "c9", "denied", "Denied by bob.")
    assert refunds(Turn(turn.message, (*turn.outcomes, denied))).text == "No refund was made (denied). Denied by bob."
