"""What a tool can't begin without is looked for before anything is dispatched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cayu_runtime import Agent, Reply, Tool, ToolEffect, ToolSpec, Turn
from cayu_runtime.checks import messages_about
from cayu_runtime.models import Attempt
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)


def needs(effect: ToolEffect, *requires: str, does: Any = None) -> Counter:
    tool = Counter(effect=effect, does=does)
    tool.spec = replace(tool.spec, requires=requires)
    return tool


@pytest.mark.parametrize("effect", list(ToolEffect))
@pytest.mark.parametrize("gate", ["allow", "require_approval"])
def test_a_missing_resource_fails_the_call_before_anything_is_dispatched(
    machine: Machine, effect: ToolEffect, gate: str
) -> None:
    tool = needs(effect, "mailer", "ledger")
    session = machine.start(agent_of(tool, policy=Gate(move_money=gate)))
    for approval in machine.approvals(session):
        machine.decide(approval, "approve")
        machine.run(session)
    (call,) = machine.calls(session)
    assert (session.state, call.state, call.reason, tool.count) == ("completed", "failed", "missing_resource", 0)
    assert (call.result["executed"], call.result["outcome_unknown"]) == (False, False)
    assert "requires 'mailer', 'ledger', which agent" in call.result["reason"]
    assert not Attempt.objects.filter(effect__call=call).exists()
    if effect is not ToolEffect.NONE:
        found = machine.effect(session)
        assert (found.state, found.dispatches) == ("abandoned", 0)
    if gate == "require_approval":
        assert call.approvals.get().state == "void"


def test_siblings_that_lack_nothing_run(machine: Machine) -> None:
    lacking, fine = needs(ToolEffect.NONE, "mailer"), Counter("look", ToolEffect.NONE)
    session = machine.start(agent_of(fine, lacking, Counter("see", ToolEffect.NONE), policy=Gate()))
    assert [call.state for call in machine.calls(session)] == ["completed", "failed", "completed"]
    assert (lacking.count, fine.count) == (0, 1)


def test_asking_for_a_resource_in_the_middle_stays_ambiguous(machine: Machine) -> None:
    tool = needs(ToolEffect.EXTERNAL, does=lambda ctx, args: ctx.require("mailer"))
    session = machine.start(agent_of(tool, policy=Gate()))
    effect = machine.effect(session)
    assert (session.interruption, effect.state) == ("effect_outcome_unknown", "outcome_unknown")
    assert effect.failure_evidence["exceptions"] == ["MissingResource"]
    assert "needs the resource 'mailer'" in effect.failure_evidence["message"]


def quiet(turn: Turn) -> Reply:
    return Reply("nothing")


def test_the_check_at_start_names_agent_tool_and_resource() -> None:
    send = Tool(ToolSpec("send", effect=ToolEffect.NONE, requires=("mailer",)))
    look = Tool(ToolSpec("look", effect=ToolEffect.NONE, verifies="sent"))
    lacking = Agent("lacking", quiet, tools=(send, look))
    fine = Agent("fine", quiet, tools=(send,), resources={"mailer": object()})
    first, second = messages_about([lacking, fine])
    assert (first.id, second.id) == ("cayu.E034", "cayu.E035")
    assert first.msg == "Agent 'lacking': tool 'send' requires 'mailer', which the agent does not have."
    assert second.msg == "Agent 'lacking': tool 'look' verifies 'sent', which the agent does not have."


def test_one_name_in_place_of_a_tuple_is_refused() -> None:
    with pytest.raises(ValueError, match="tuple of names"):
        ToolSpec("send", requires="mailer")  # type: ignore[arg-type]
