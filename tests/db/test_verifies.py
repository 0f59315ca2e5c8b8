"""A tool that verifies another one attaches what it read to the effect; the receipt stays (DESIGN §4)."""

from __future__ import annotations

from typing import Any

import pytest

from cayu_runtime import Call, Tool, ToolEffect, ToolResult, ToolSpec
from cayu_runtime.models import EffectRecord, Event, Session
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)

ANY = {"type": "object", "additionalProperties": True}


class Check(Tool):
    def __init__(self, *results: Any, operation: str = "") -> None:
        super().__init__(ToolSpec("check", "", ANY, ToolEffect.NONE, verifies="apply_change", operation=operation))
        self.results = list(results)

    def run(self, ctx: Any, args: dict[str, Any]) -> Any:
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def checked(machine: Machine, *results: Any, apply: str = "change-1", check: str = "", operation: str = "") -> Session:
    """One applied change, then one check for each result; `check` is the operation that the checks name."""
    tools = (Counter("apply_change"), Check(*results, operation=operation))
    arguments = {"action_id": check} if check else {}
    rounds = [[Call("apply_change", {"action_id": apply})], *([Call("check", arguments)] for _ in results)]
    return machine.start(agent_of(*tools, policy=Gate(), rounds=rounds))


@pytest.mark.parametrize(
    "result, verdict",
    [
        (ToolResult("as ordered", {"verified": True}), "passed"),
        (ToolResult("something else", {"verified": False}), "failed"),
        (ToolResult("not yet", {"verified": None}), "inconclusive"),
        (ToolResult("hm"), "inconclusive"),
        (ToolResult("hm", {"verified": "yes"}), "inconclusive"),
        (ToolResult("hm", {"verified": 1}), "inconclusive"),
        (ToolResult("I could not look", {"verified": True}, is_error=True), "inconclusive"),
    ],
)
def test_a_check_is_attached_and_the_receipt_stays(machine: Machine, result: ToolResult, verdict: str) -> None:
    session = checked(machine, result)
    effect = machine.effect(session)
    check = machine.calls(session)[1]
    assert (effect.state, effect.verification) == ("completed", verdict)
    assert effect.receipt is not None
    assert effect.verification_evidence["call"] == str(check.id)
    assert effect.verification_evidence["said"] == result.content
    event = Event.objects.get(session=session, type="tool.effect.verified")
    assert event.payload["effect"] == str(effect.id)
    assert event.payload["verification"] == verdict
    assert check.result["verification"] == {
        "effect": str(effect.id),
        "operation": effect.operation_id,
        "verification": verdict,
    }
    assert session.state == "completed", "a failed check leaves it to the model to diagnose anew"


PASSED, FAILED = ToolResult("", {"verified": True}), ToolResult("", {"verified": False})
UNSURE = ToolResult("", {"verified": None})


@pytest.mark.parametrize(
    "results, verdict",
    [
        ((FAILED, PASSED), "passed"),
        ((PASSED, FAILED), "failed"),
        ((PASSED, UNSURE), "passed"),
        ((FAILED, UNSURE), "failed"),
        ((UNSURE, PASSED), "passed"),
    ],
)
def test_the_latest_check_that_could_tell_stands(machine: Machine, results: Any, verdict: str) -> None:
    session = checked(machine, *results)
    assert machine.effect(session).verification == verdict
    assert machine.events(session).count("tool.effect.verified") == 2


def test_a_check_that_raised_says_nothing(machine: Machine) -> None:
    session = checked(machine, RuntimeError("no answer"))
    assert machine.effect(session).verification is None
    assert "tool.effect.verified" not in machine.events(session)


@pytest.mark.parametrize("named, found", [("change-1", True), ("change-2", False)])
def test_a_check_is_about_the_operation_that_it_names(machine: Machine, named: str, found: bool) -> None:
    session = checked(machine, PASSED, check=named, operation="action_id")
    assert machine.effect(session).verification == ("passed" if found else None)
    if not found:
        said = machine.calls(session)[1].result["verification"]
        assert said["effect"] is None
        assert "no completed effect of apply_change" in said["said"]


def test_the_operation_may_be_the_one_of_the_effect_itself(machine: Machine) -> None:
    tools = (Counter("apply_change"), Check(PASSED, operation="action_id"))
    arguments: dict[str, Any] = {}
    rounds = [[Call("apply_change", {})], [Call("check", arguments)]]
    session = machine.start(agent_of(*tools, policy=Gate(apply_change="require_approval"), rounds=rounds))
    arguments["action_id"] = machine.effect(session).operation_id
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert machine.effect(session).verification == "passed"


def test_without_an_operation_it_is_the_latest_effect_of_this_session(machine: Machine) -> None:
    other = checked(machine, PASSED)
    tools = (Counter("apply_change"), Counter("another"), Check(FAILED))
    rounds = [[Call(name, {})] for name in ("apply_change", "apply_change", "another", "check")]
    session = machine.start(agent_of(*tools, policy=Gate(), rounds=rounds))
    found = EffectRecord.objects.filter(session=session).order_by("created_at")
    assert [effect.verification for effect in found] == [None, "failed", None]
    assert machine.effect(other).verification == "passed"


def test_an_effect_that_is_not_completed_is_not_verified(machine: Machine) -> None:
    tools = (Counter("apply_change", does=lambda ctx, args: ToolResult("no", is_error=True)), Check(PASSED))
    session = machine.start(agent_of(*tools, policy=Gate(), rounds=[[Call("apply_change", {})], [Call("check", {})]]))
    assert (machine.effect(session).state, machine.effect(session).verification) == ("rejected", None)


def test_only_a_tool_without_effect_verifies() -> None:
    with pytest.raises(ValueError, match="only a tool without effect"):
        ToolSpec("check", verifies="apply_change")
