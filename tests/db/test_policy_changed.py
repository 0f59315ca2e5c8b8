"""An approval is bound to the policy that asked for it: a changed parameter voids it, at any depth (DESIGN §5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cayu_runtime import Call, PolicyIdentity, registry
from cayu_runtime.errors import StaleTool
from cayu_runtime.models import Approval
from cayu_runtime.policies import ByTool, Guarded, OneOf, RequireApproval, Strictest
from tests.machine import Counter, Machine, agent_of
from tests.unit.policies.asked import Part


def guarded(limit: int) -> Guarded:
    guard = Part(None, PolicyIdentity("mine", "1", {"limit": limit}))
    return Guarded((guard,), RequireApproval(("move_money",)))


CHANGES: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
    ("time limit", lambda: RequireApproval(("move_money",)), lambda: RequireApproval(("move_money",), 60)),
    ("four eyes", lambda: RequireApproval(("move_money",)), lambda: RequireApproval(("move_money",), four_eyes=False)),
    ("version", lambda: RequireApproval(("move_money",)), lambda: RequireApproval(("move_money",), version="2")),
    ("a user's guard", lambda: guarded(5), lambda: guarded(6)),
    (
        "an allow-list",
        lambda: Guarded((OneOf(("move_money",), "to", ("x",)),), RequireApproval(("move_money",))),
        lambda: Guarded((OneOf(("move_money",), "to", ("x", "y")),), RequireApproval(("move_money",))),
    ),
    (
        "deep inside",
        lambda: Strictest((ByTool({"move_money": guarded(5)}), RequireApproval(("move_money",)))),
        lambda: Strictest((ByTool({"move_money": guarded(6)}), RequireApproval(("move_money",)))),
    ),
]
each_change = pytest.mark.parametrize("before, after", [change[1:] for change in CHANGES], ids=[c[0] for c in CHANGES])


@each_change
@pytest.mark.parametrize("decided_first", [True, False], ids=["approved before", "approved after"])
def test_a_changed_policy_voids_the_approval(
    machine: Machine, before: Callable[[], Any], after: Callable[[], Any], decided_first: bool
) -> None:  # A16
    tool = Counter()
    agent = agent_of(tool, policy=before())
    session = machine.start(agent)
    (approval,) = machine.approvals(session)
    if decided_first:
        machine.decide(approval, "approve")
    registry.register_for_test(replace(agent, policy=after()))
    if not decided_first:
        with pytest.raises(StaleTool, match="changed since it was authorised"):
            machine.decide(approval, "approve")
    machine.run(session)
    (call,) = machine.calls(session)
    assert (session.state, tool.count, call.state, call.reason) == ("completed", 0, "blocked", "stale")
    voided = Approval.objects.get(session=session)
    assert (voided.state, "propose it again" in voided.reason) == ("void", True)
    assert "tool.call.approval_void" in machine.events(session)
    assert "blocked" in machine.last_text(session), "the model is told"


@each_change
def test_an_equal_policy_built_anew_keeps_it(
    machine: Machine, before: Callable[[], Any], after: Callable[[], Any]
) -> None:
    """As after a restart, or in a newer build."""
    tool = Counter()
    agent = agent_of(tool, policy=before())
    session = machine.start(agent)
    registry.register_for_test(replace(agent, policy=before()))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.state, tool.count, machine.calls(session)[0].state) == ("completed", 1, "completed")


def test_a_guard_that_objects_by_now_blocks_what_was_approved(machine: Machine) -> None:
    """Same identity, another answer: before a dispatch a policy only narrows."""
    closed = False

    def guard(request: Any) -> Any:
        return RequireApproval(("move_money",)).authorize(request) if closed else None

    tool = Counter()
    session = machine.start(agent_of(tool, policy=Guarded((Part(guard),), RequireApproval(("move_money",)))))
    machine.decide(machine.approvals(session)[0], "approve")
    closed = True
    machine.run(session)
    (call,) = machine.calls(session)
    assert (tool.count, call.state, call.reason) == (0, "blocked", "policy")


def test_a_rule_about_an_argument_stops_the_call_before_anybody_is_asked(machine: Machine) -> None:
    tool = Counter()
    policy = Guarded((OneOf(("move_money",), "to", ("x",)),), RequireApproval(("move_money",)))
    rounds = [[Call("move_money", {"to": "y"})], [Call("move_money", {"to": "x"})]]
    session = machine.start(agent_of(tool, policy=policy, rounds=rounds))
    refused, asked = machine.calls(session)
    assert (refused.state, refused.reason, asked.state) == ("blocked", "policy", "awaiting_approval")
    assert "'to'" in refused.decision_reason
    assert len(machine.approvals(session)) == 1
