"""A tool that ends after it was given up, in its own thread and on its own connection."""

import threading

import pytest

from cayu_runtime import EffectNotPerformed, ToolEffect, ToolResult
from cayu_runtime.core import execution
from cayu_runtime.models import Attempt, Event
from tests.machine import Counter, Gate, agent_of

pytestmark = pytest.mark.postgres
ASK = Gate(move_money="require_approval")


class Slow:
    """A tool's body that waits until it is let go, and a record of the late outcome being told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ends) -> None:
        self.go, self.told = threading.Event(), threading.Event()
        self.ends = ends
        real = execution._tell_late

        def tell(*args):
            real(*args)
            self.told.set()

        monkeypatch.setattr(execution, "_tell_late", tell)

    def __call__(self, ctx, args):
        assert self.go.wait(20)
        return self.ends()

    def let_go(self) -> None:
        self.go.set()
        assert self.told.wait(20)


def refuse():
    raise EffectNotPerformed("closed")


@pytest.mark.parametrize(
    "ends, state, final", [(lambda: ToolResult("done"), "completed", "completed"), (refuse, "rejected", "failed")]
)
def test_a_late_answer_settles_what_its_timeout_left_unknown(machine, monkeypatch, ends, state, final):
    slow = Slow(monkeypatch, ends)
    session = machine.start(agent_of(Counter(does=slow, timeout=0.2), policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert machine.effect(session).state == "outcome_unknown"
    slow.let_go()
    effect = machine.effect(session)
    assert (effect.state, effect.receipt["source"]) == (state, "late")
    assert machine.run(session).state == "completed"
    assert machine.calls(session)[0].state == final


def test_a_late_answer_of_the_first_run_is_evidence_beside_the_second(machine, monkeypatch):
    slow = Slow(monkeypatch, lambda: ToolResult("done"))

    def first_is_slow(ctx, args):
        return ToolResult("done") if ctx.replayed else slow(ctx, args)

    session = machine.start(agent_of(Counter("move_money", ToolEffect.IDEMPOTENT, first_is_slow, 0.2), policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert machine.effect(session).state == "completed"
    slow.let_go()
    late = Attempt.objects.get(effect=machine.effect(session), kind="late_outcome")
    assert (late.state, late.evidence["contradicts"]) == ("superseded", False)
    assert Event.objects.get(session=session, type="tool.effect.late_outcome").payload["settles"] is False
