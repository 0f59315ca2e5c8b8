"""What holds for a first run holds for the one replay: kill switch, digests, policy (DESIGN §4, §6, §8)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cayu_runtime import (
    Agent,
    PolicyDecision,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    ToolEffect,
    ToolPolicy,
    registry,
)
from cayu_runtime.contracts import Actor
from cayu_runtime.core import clock, execution
from cayu_runtime.core.transitions import transition
from cayu_runtime.models import Session, ToolCall
from cayu_runtime.services.pause import pause_dispatch, resume_dispatch
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)
OPERATOR = Actor("shell:root", "root", None, "shell")
GATED = Gate(look="require_approval")


class Dies(BaseException):
    """The process ends here."""


def lost(machine: Machine, tool: Counter, policy: ToolPolicy) -> Session:
    """A session whose worker died while the tool ran; its lease is over."""
    session = machine.start(agent_of(tool, policy=policy), run=False)
    if policy is GATED:
        machine.run(session)
        machine.decide(machine.approvals(session)[0], "approve")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "perform", dies)
        with pytest.raises(Dies):
            machine.run(session)
    with transition(session.pk) as change:
        change.set(lease_until=change.now)
    return session


def dies(*args: object) -> None:
    raise Dies


def later() -> Any:
    return clock.shifted(timedelta(seconds=31))


@pytest.mark.parametrize(
    "tool, policy",
    [
        (lambda: Counter(effect=ToolEffect.IDEMPOTENT), Gate()),
        (lambda: Counter("look", effect=ToolEffect.NONE), GATED),
    ],
    ids=["idempotent", "gated reading"],
)
def test_the_kill_switch_holds_a_replay_back(machine: Machine, tool: Callable[[], Counter], policy: ToolPolicy) -> None:
    counter = tool()
    session = lost(machine, counter, policy)
    pause_dispatch(OPERATOR, tenant=machine.tenant, reason="an incident")
    machine.run(session, "worker-2")
    (call,) = machine.calls(session)
    assert (session.state, call.state, call.reason, counter.count) == ("pending", "dispatched", "dispatch_paused", 0)
    resume_dispatch(OPERATOR, tenant=machine.tenant)
    with later():
        machine.run(session, "worker-2")
    assert (session.state, counter.count) == ("completed", 1)
    assert counter.seen[0].replayed


def test_the_kill_switch_holds_a_replay_in_place_back(machine: Machine) -> None:
    def loses(ctx: Any, args: dict[str, Any]) -> Any:
        pause_dispatch(OPERATOR, tenant=machine.tenant, reason="an incident")
        raise ConnectionError("no answer")

    counter = Counter(effect=ToolEffect.IDEMPOTENT, does=loses)
    session = machine.start(agent_of(counter, policy=Gate()))
    assert (session.state, machine.calls(session)[0].state, counter.count) == ("pending", "dispatched", 1)


def test_arguments_that_changed_in_the_row_are_not_sent(machine: Machine) -> None:
    counter = Counter(effect=ToolEffect.IDEMPOTENT)
    session = lost(machine, counter, Gate())
    ToolCall.objects.filter(session=session).update(arguments={"to": "mallory"})
    machine.run(session, "worker-2")
    assert (machine.effect(session).state, counter.count) == ("outcome_unknown", 0)


class Later(ToolPolicy):
    """Allows, until it does not."""

    identity = PolicyIdentity("later", "1", {})

    def __init__(self) -> None:
        self.says = PolicyDecision.ALLOW

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        return PolicyResult(self.says, "closed by now")


def test_what_the_policy_denies_by_now_is_not_repeated(machine: Machine) -> None:
    counter, policy = Counter(effect=ToolEffect.IDEMPOTENT), Later()
    session = lost(machine, counter, policy)
    policy.says = PolicyDecision.DENY
    machine.run(session, "worker-2")
    assert (machine.effect(session).state, counter.count) == ("outcome_unknown", 0)


def test_a_worker_that_does_not_know_the_agent_leaves_it_to_one_that_does(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter()
    agent = agent_of(counter, policy=Gate(move_money="require_approval"))
    session = machine.start(agent)
    machine.decide(machine.approvals(session)[0], "approve")
    find: Callable[[str], Agent | None] = registry.find_agent
    monkeypatch.setattr(registry, "find_agent", lambda name: None)
    machine.run(session, "old-build")
    assert (session.state, session.model_failures, counter.count) == ("pending", 1, 0)
    monkeypatch.setattr(registry, "find_agent", find)
    with clock.shifted(timedelta(seconds=60)):
        machine.run(session, "new-build")
    assert (session.state, counter.count) == ("completed", 1)
