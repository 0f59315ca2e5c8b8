"""What a person wrote with a decision: bounded, clean, and told to the model (A25)."""

from __future__ import annotations

import pytest

from cayu_runtime.errors import InvalidRequest
from cayu_runtime.models import Decision, Event
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)

LONG = "Too\x00 expensive\x1b[2J\u202e\ud800\n" + "no! " * 2500


@pytest.mark.parametrize("verdict", ["deny", "approve"])
def test_a_reason_is_stored_bounded_and_clean_and_reaches_the_model(machine: Machine, verdict: str) -> None:  # A25
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate(move_money="require_approval")))
    machine.decide(machine.approvals(session)[0], verdict, reason=LONG)
    machine.run(session)
    stored = Decision.objects.get(approval__session=session).reason
    assert len(stored) <= 2000
    assert all(c == "\n" or c.isprintable() for c in stored)
    assert stored.startswith("Too\\u0000 expensive[2J\\ud800\nno! no!")
    assert "characters in all]" in stored[-40:]
    result = machine.calls(session)[0].result
    assert machine.transcript(session)[-2]["parts"][0]["content"] == result
    if verdict == "deny":
        assert result["reason"] == f"Denied by bob. Reason: {stored}"
    else:
        assert result["approver_said"] == stored
    assert tool.count == (verdict == "approve")
    kinds = ("tool.call.approved", "tool.call.approval_denied")
    assert Event.objects.get(session=session, type__in=kinds).payload["reason"] == stored


def test_an_approval_without_words_adds_nothing(machine: Machine) -> None:
    session = machine.start(agent_of(Counter(), policy=Gate(move_money="require_approval")))
    machine.decide(machine.approvals(session)[0], "approve", reason=" ")
    machine.run(session)
    assert "approver_said" not in machine.calls(session)[0].result


def test_a_denial_of_invisible_characters_gives_no_reason(machine: Machine) -> None:
    session = machine.start(agent_of(Counter(), policy=Gate(move_money="require_approval")))
    with pytest.raises(InvalidRequest, match="needs a reason"):
        machine.decide(machine.approvals(session)[0], "deny", reason="\x1b\u200b\u202e ")
    with pytest.raises(InvalidRequest, match="needs a reason"):
        machine.decide(machine.approvals(session)[0], "deny", reason="\0\ud800 \0")
