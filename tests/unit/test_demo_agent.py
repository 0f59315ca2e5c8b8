"""What the demo's agent reads out of what people type: all of it, or it asks again."""

import pytest

from cayu_project.demo.agents import HOW, refunds
from cayu_runtime import Turn

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
     "refund order 5", "refund order 5 -3", "refund order 5 1 because x; refund order 6", "so: refund order 5 1"],
)  # fmt: skip
def test_asks_again_when_it_cannot_read_all_of_it(text: str) -> None:
    reply = refunds(Turn(text))
    assert (reply.calls, reply.text) == ((), HOW)
