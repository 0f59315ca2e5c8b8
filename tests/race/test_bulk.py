"""Two people decide the same set at one moment, in reversed order (CASES B15)."""

import threading

import pytest

from cayu_runtime import Call, ToolEffect
from cayu_runtime.models import Approval, Decision
from cayu_runtime.services.approval import Item, decide_many
from tests.machine import Counter, Gate, agent_of
from tests.race.rivals import PATIENCE, Rival

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(180)]
ROUNDS, SESSIONS, CALLS = 200, 3, 25


def test_two_bulk_operations_over_the_same_rows_in_reversed_order_never_block_each_other_for_good(machine):  # B15
    """Each round is fresh rows of three sessions, whose locks the two sides want in opposite orders."""
    sets = [rows for _ in range(ROUNDS // CALLS) for rows in fresh_sets(machine)]
    assert len(sets) == ROUNDS
    meet = threading.Barrier(2)

    def side(actor, verdict, order):
        def work():
            answers = []
            for rows in sets:
                meet.wait(PATIENCE)
                answers.append(decide_many(machine.tenant, actor, rows[::order], verdict=verdict, reason="a"))
            return answers

        return work

    rivals = [Rival(side(machine.bob, "approve", 1)), Rival(side(machine.carol, "deny", -1))]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join(150)
    ups, downs = (rival.outcome for rival in rivals)
    assert isinstance(ups, list), ups
    assert isinstance(downs, list), downs
    for up, down in zip(ups, downs, strict=True):
        for one, other in zip(up, down[::-1], strict=True):
            assert one.item == other.item
            assert {one.code, other.code} == {"done", "already_decided"}
    assert Decision.objects.count() == ROUNDS * SESSIONS
    assert not Approval.objects.filter(state="pending").exists()
    winners = {sum(answer.done for answer in up) for up in ups}
    assert winners - {0, SESSIONS}, "the two never met inside a set"


def fresh_sets(machine):
    """Sets of one approval of each session; a session brings as many as a round may have."""
    columns = []
    for _ in range(SESSIONS):
        tool = Counter("label", ToolEffect.IDEMPOTENT)
        rounds = [[Call("label", {"to": str(number)}) for number in range(CALLS)]]
        session = machine.start(agent_of(tool, policy=Gate(label="require_approval"), rounds=rounds))
        columns.append(machine.approvals(session))
    return [[Item(a.pk, a.version, bytes(a.intent_digest).hex()) for a in row] for row in zip(*columns, strict=True)]
