"""Arguments that the approver changes, and approvals that are taken back (DESIGN §3, §5; CASES A15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from django_q.models import OrmQ

from cayu_runtime import Call, PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, ToolEffect, ToolPolicy, tool
from cayu_runtime.core import clock
from cayu_runtime.errors import AlreadyDecided, Conflict, InvalidRequest, StaleVersion
from cayu_runtime.models import Approval, Decision, Event, Session
from cayu_runtime.services.approval import revoke_approval
from cayu_runtime.services.pause import pause_dispatch
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)
ASKED = {"order": "7", "amount": 500}


class Editable(ToolPolicy):
    """Asks a person, who may change the arguments and approve what they wrote, and allows no amount above 1000."""

    identity = PolicyIdentity("editable", "1", {})

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        if request.arguments["amount"] > 1000:
            return PolicyResult(PolicyDecision.DENY, "At most 1000.")
        return PolicyResult(PolicyDecision.REQUIRE_APPROVAL, four_eyes=False, editable=True)


class Till:
    """A tool that pays, and what it paid."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []

        @tool(effect=ToolEffect.EXTERNAL, target="order")
        def refund(order: str, amount: int) -> str:
            self.paid.append((order, amount))
            return "paid"

        self.tool = refund


@pytest.fixture
def till() -> Till:
    return Till()


def waiting(machine: Machine, till: Till, policy: ToolPolicy | None = None) -> tuple[Session, Approval]:
    agent = agent_of(till.tool, policy=policy or Editable(), rounds=[[Call("refund", ASKED)]])
    session = machine.start(agent)
    (approval,) = machine.approvals(session)
    return session, approval


def told(machine: Machine, session: Session) -> Any:
    """The result of the first call, as the model got it."""
    return machine.transcript(session)[2]["parts"][0]["content"]


def test_the_edited_arguments_run_once_and_the_agent_is_told(machine: Machine, till: Till) -> None:  # A15
    session, approval = waiting(machine, till)
    asked = approval.intent_digest
    machine.decide(approval, "approve", arguments={**ASKED, "amount": 50})
    machine.run(session)
    assert (session.state, till.paid) == ("completed", [("7", 50)])
    approval.refresh_from_db()
    (call,), effect = machine.calls(session), machine.effect(session)
    assert (approval.state, approval.version, call.version) == ("consumed", 2, 2)
    assert (call.arguments, call.proposed_arguments) == ({**ASKED, "amount": 50}, ASKED)
    assert approval.intent_digest == call.intent_digest == effect.intent_digest != asked
    assert effect.action_digest == call.action_digest
    assert told(machine, session)["edited"]["arguments"] == {**ASKED, "amount": 50}
    event = Event.objects.get(session=session, type="tool.call.edited").payload
    assert (event["fields"], event["before"], event["after"]) == (["amount"], {"amount": 500}, {"amount": 50})
    assert (event["by_name"], event["digest_before"]) == ("bob", asked.hex())
    decision = Decision.objects.get(approval=approval)
    assert (decision.version, decision.digest) == (2, approval.intent_digest)


def test_an_edit_is_coerced_like_a_models_arguments(machine: Machine, till: Till) -> None:
    session, approval = waiting(machine, till)
    machine.decide(approval, "approve", arguments={"order": "7", "amount": "50"})
    machine.run(session)
    assert till.paid == [("7", 50)]


def test_an_edit_that_changes_nothing_is_a_plain_approval(machine: Machine, till: Till) -> None:
    session, approval = waiting(machine, till)
    machine.decide(approval, "approve", arguments=dict(ASKED))
    machine.run(session)
    assert (till.paid, machine.calls(session)[0].version) == ([("7", 500)], 1)
    assert "tool.call.edited" not in machine.events(session)
    assert "edited" not in told(machine, session)


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"order": "7", "amount": "much"}, "do not fit the tool"),
        ({"order": "7"}, "do not fit the tool"),
        ({**ASKED, "tool": "other"}, "do not fit the tool"),
        ({**ASKED, "amount": 2**53}, "send it as a string"),
        ({**ASKED, "amount": 1001}, "At most 1000."),
    ],
)
def test_what_schema_or_policy_refuse_is_no_edit(machine: Machine, till: Till, arguments: Any, says: str) -> None:
    session, approval = waiting(machine, till)
    with pytest.raises(InvalidRequest, match=f"(?i){says}"):
        machine.decide(approval, "approve", arguments=arguments)
    approval.refresh_from_db()
    assert (approval.state, approval.version, session.state, till.paid) == ("pending", 1, "interrupted", [])


class ByAmount(ToolPolicy):
    """Asks for more, the more it is about."""

    identity = PolicyIdentity("by amount", "1", {})
    wants: Mapping[int, PolicyResult] = {
        600: PolicyResult(PolicyDecision.REQUIRE_APPROVAL, four_eyes=True, editable=True),
        700: PolicyResult(PolicyDecision.REQUIRE_APPROVAL, four_eyes=False, editable=False),
        800: PolicyResult(PolicyDecision.REQUIRE_APPROVAL, four_eyes=False, editable=True, expires_in=60),
    }

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        plain = PolicyResult(PolicyDecision.REQUIRE_APPROVAL, four_eyes=False, editable=True)
        return self.wants.get(request.arguments["amount"], plain)


@pytest.mark.parametrize("amount, says", [(600, "second person"), (700, "not come from an edit"), (800, "shorter")])
def test_an_edit_does_not_get_round_what_the_policy_asks_for_it(
    machine: Machine, till: Till, amount: int, says: str
) -> None:
    session, approval = waiting(machine, till, ByAmount())
    with pytest.raises(InvalidRequest, match=says):
        machine.decide(approval, "approve", machine.alice, arguments={**ASKED, "amount": amount})
    assert Approval.objects.get(pk=approval.pk).state == "pending"
    machine.decide(approval, "approve", arguments={**ASKED, "amount": 501})
    machine.run(session)
    assert till.paid == [("7", 501)]


def test_a_policy_that_does_not_say_so_allows_no_edit(machine: Machine, till: Till) -> None:
    _, approval = waiting(machine, till, Gate(refund="require_approval"))
    with pytest.raises(InvalidRequest, match="allows no change"):
        machine.decide(approval, "approve", arguments={**ASKED, "amount": 50})
    assert Approval.objects.get(pk=approval.pk).state == "pending"


def test_a_denial_carries_no_arguments(machine: Machine, till: Till) -> None:
    _, approval = waiting(machine, till)
    with pytest.raises(InvalidRequest, match="Deny it without arguments"):
        machine.decide(approval, "deny", arguments={**ASKED, "amount": 50})


def test_the_same_edit_again_is_the_recorded_decision(machine: Machine, till: Till) -> None:  # A5
    session, approval = waiting(machine, till)
    first = machine.decide(approval, "approve", arguments={**ASKED, "amount": 50})
    machine.run(session)
    again = machine.decide(approval, "approve", arguments={**ASKED, "amount": 50})
    assert (again.replay, again.decision.pk, till.paid) == (True, first.decision.pk, [("7", 50)])
    with pytest.raises(AlreadyDecided):
        machine.decide(approval, "approve", arguments={**ASKED, "amount": 60})
    with pytest.raises(AlreadyDecided):
        machine.decide(approval, "approve")


def test_who_saw_the_version_before_an_edit_decides_nothing(machine: Machine, till: Till) -> None:
    _, approval = waiting(machine, till)
    with pytest.raises(StaleVersion):
        machine.decide(approval, "approve", version=2, arguments={**ASKED, "amount": 50})


# ---- taken back ----


def revoke(machine: Machine, approval: Approval, **changes: Any) -> Any:
    seen = {"version": approval.version, "digest": bytes(approval.intent_digest).hex(), "reason": "wrong order"}
    return revoke_approval(machine.tenant, machine.carol, approval.pk, **{**seen, **changes})


def test_a_revoked_approval_runs_nothing_and_the_agent_is_told_why(machine: Machine) -> None:
    counter = Counter()
    session = machine.start(agent_of(counter, policy=Gate(move_money="require_approval")))
    (approval,) = machine.approvals(session)
    machine.decide(approval, "approve")
    revoke(machine, approval)
    machine.run(session)
    approval.refresh_from_db()
    (call,) = machine.calls(session)
    assert (approval.state, call.state, machine.effect(session).state) == ("revoked", "denied", "abandoned")
    assert (session.state, counter.count) == ("completed", 0)
    assert "taken back by carol. Reason: wrong order" in told(machine, session)["reason"]
    assert approval.decided_by is not None
    assert (approval.decided_by.verdict, approval.decided_by.actor_name) == ("approve", "bob")
    assert Decision.objects.get(approval=approval, verdict="revoke").actor_name == "carol"
    assert "tool.call.approval_revoked" in machine.events(session)


def test_what_a_pause_held_back_goes_on_at_once_when_it_is_taken_back(machine: Machine) -> None:
    counter = Counter()
    session = machine.start(agent_of(counter, policy=Gate(move_money="require_approval")))
    (approval,) = machine.approvals(session)
    machine.decide(approval, "approve")
    pause_dispatch(machine.bob, reason="a test")
    machine.run(session)
    assert session.runnable_at is not None
    assert session.runnable_at > clock.now()
    rung = OrmQ.objects.count()
    revoke(machine, approval)
    session.refresh_from_db()
    assert session.runnable_at <= clock.now()
    assert OrmQ.objects.count() == rung + 1
    machine.run(session)
    assert (session.state, counter.count) == ("completed", 0)


def test_one_of_two_is_taken_back_before_the_other_is_decided(machine: Machine) -> None:
    counter = Counter()
    rounds = [[Call("move_money", {"to": "x"}), Call("move_money", {"to": "y"})]]
    session = machine.start(agent_of(counter, policy=Gate(move_money="require_approval"), rounds=rounds))
    first, second = machine.approvals(session)
    machine.decide(first, "approve")
    revoke(machine, first)
    assert Session.objects.get(pk=session.pk).interruption == "approval_required"
    machine.decide(second, "approve")
    machine.run(session)
    assert [call.state for call in machine.calls(session)] == ["denied", "completed"]
    assert counter.count == 1


def test_revoking_again_is_the_recorded_answer_and_too_late_is_said(machine: Machine) -> None:
    session = machine.start(agent_of(Counter(), policy=Gate(move_money="require_approval")))
    (approval,) = machine.approvals(session)
    with pytest.raises(Conflict, match="nothing to take back"):
        revoke(machine, approval)
    machine.decide(approval, "approve")
    first = revoke(machine, approval)
    assert revoke(machine, approval).decision.pk == first.decision.pk
    with pytest.raises(Conflict, match="is revoked"):
        revoke_approval(machine.tenant, machine.bob, approval.pk, version=1, digest="00" * 32, reason="no")


def test_what_is_dispatched_is_not_taken_back(machine: Machine) -> None:
    counter = Counter()
    session = machine.start(agent_of(counter, policy=Gate(move_money="require_approval")))
    (approval,) = machine.approvals(session)
    machine.decide(approval, "approve")
    machine.run(session)
    with pytest.raises(Conflict, match="Too late"):
        revoke(machine, approval)
    assert counter.count == 1


@pytest.mark.parametrize("change", [{"version": 2}, {"digest": "00" * 32}])
def test_a_revocation_names_what_was_seen(machine: Machine, change: dict[str, Any]) -> None:
    session = machine.start(agent_of(Counter(), policy=Gate(move_money="require_approval")))
    (approval,) = machine.approvals(session)
    machine.decide(approval, "approve")
    with pytest.raises(StaleVersion):
        revoke(machine, approval, **change)
    with pytest.raises(InvalidRequest, match="needs a reason"):
        revoke(machine, approval, reason=" ")
