"""Standing grants in the machine: what passes, what is counted, what still waits for a person, what was taken back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cayu_runtime import (
    Agent,
    Call,
    PolicyDecision,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    ToolEffect,
    ToolPolicy,
)
from cayu_runtime.core import clock, engine
from cayu_runtime.errors import Conflict, InvalidRequest
from cayu_runtime.management.audit.ties import tie_damage
from cayu_runtime.models import Approval, AuditEntry, Decision, Event, Grant
from cayu_runtime.services.approval import revoke_approval
from cayu_runtime.services.grant import make_grant, revoke_grant
from cayu_runtime.services.pause import pause_dispatch, resume_dispatch
from tests import rows
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)

ASK = Gate(move_money="require_approval")
TO_X = {"to": {"equals": "x"}}


def grant_for(machine: Machine, **options: Any) -> Grant:
    given: dict[str, Any] = {"tool": "move_money", "rules": TO_X, "reason": "Only x, this week.", **options}
    return make_grant(machine.tenant, machine.bob, **given)


def known(tool: Counter, policy: ToolPolicy = ASK, **options: Any) -> Agent:
    return agent_of(tool, policy=policy, **options)


def test_a_call_in_the_range_passes_is_counted_and_says_under_whose_grant(machine: Machine) -> None:
    tool = Counter()
    agent = known(tool)
    grant = grant_for(machine)
    session = machine.start(agent)
    assert (session.state, tool.count) == ("completed", 1)
    grant.refresh_from_db()
    assert (grant.uses, grant.last_used_at is not None) == (1, True)
    approval = Approval.objects.get(session=session)
    assert (approval.state, approval.grant_id) == ("consumed", grant.pk)
    decision = Decision.objects.get(approval=approval)
    assert (decision.verdict, decision.actor, decision.source) == ("approve", "user:bob", "grant")
    event = Event.objects.get(session=session, type="tool.call.approved_by_grant")
    assert (event.payload["grant"], event.payload["by_name"]) == (str(grant.pk), "bob")
    assert "tool.call.approval_requested" not in machine.events(session)
    assert "Only x" not in str(machine.transcript(session)), "why it was granted is no word to the agent"


def test_a_use_that_no_approval_names_is_found_by_verify_audit(machine: Machine) -> None:
    agent = known(Counter())
    grant = grant_for(machine)
    machine.start(agent)
    assert not [damage for damage in tie_damage(machine.tenant) if damage.where.startswith("grant")]
    Grant.objects.filter(pk=grant.pk).update(uses=2)
    (damage,) = [damage for damage in tie_damage(machine.tenant) if damage.where.startswith("grant")]
    assert "used 2 times; 1 approvals name it" in damage.what


@pytest.mark.parametrize(
    "rules, arguments",
    [
        (TO_X, {"to": "y"}),
        (TO_X, {"to": "x", "more": 1}),
        (TO_X, {}),
        ({}, {"to": "x"}),
        ({"to": {"any": True}, "sum": {"max": 5}}, {"to": "x", "sum": 5.01}),
    ],
    ids=["another value", "an argument without a rule", "absent", "no rule at all", "too much"],
)
def test_a_call_outside_of_the_range_waits_for_a_person(machine: Machine, rules: Any, arguments: Any) -> None:
    tool = Counter()
    agent = known(tool, rounds=[[Call("move_money", arguments)]])
    grant = grant_for(machine, rules=rules)
    session = machine.start(agent)
    assert (session.interruption, tool.count) == ("approval_required", 0)
    grant.refresh_from_db()
    assert grant.uses == 0


class Insists(ToolPolicy):
    """Wants a person for every call, and says it of itself only from `begins` on."""

    def __init__(self, begins: int = 0) -> None:
        self.asked, self.begins = 0, begins

    @property
    def identity(self) -> PolicyIdentity:
        return PolicyIdentity("insists", "1", {})

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        self.asked += 1
        return PolicyResult(PolicyDecision.REQUIRE_APPROVAL, mandatory=self.asked > self.begins)


def test_what_a_policy_calls_mandatory_waits_for_a_person(machine: Machine) -> None:
    tool = Counter()
    agent = known(tool, Insists())
    grant_for(machine)
    assert machine.start(agent).interruption == "approval_required"
    assert (tool.count, Grant.objects.get().uses) == (0, 0)


def test_what_becomes_mandatory_before_its_dispatch_does_not_begin(machine: Machine) -> None:
    tool = Counter()
    agent = known(tool, Insists(begins=1))
    grant_for(machine)
    session = machine.start(agent)
    assert [(c.state, c.reason) for c in machine.calls(session)] == [("blocked", "policy")]
    assert tool.count == 0


@pytest.mark.parametrize("effect, passes", [(ToolEffect.EXTERNAL, 0), (ToolEffect.IDEMPOTENT, 1)])
def test_by_four_eyes_nobody_lets_their_own_request_pass(machine: Machine, effect: ToolEffect, passes: int) -> None:
    tool = Counter(effect=effect)
    agent = known(tool)
    make_grant(machine.tenant, machine.alice, tool="move_money", rules=TO_X, reason="for me")
    machine.start(agent)  # alice asks
    assert tool.count == passes


@pytest.mark.parametrize("column, value", [("tool_version", "2"), ("agent", "another"), ("tool", "other")])
def test_another_version_agent_or_tool_is_not_covered(machine: Machine, column: str, value: str) -> None:
    tool = Counter()
    agent = known(tool)
    values: dict[str, Any] = {"tool": "move_money", "rules": TO_X, column: value}
    rows.grant(tenant=machine.tenant, **values)
    assert machine.start(agent).interruption == "approval_required"
    assert tool.count == 0


def test_a_grant_of_another_tenant_covers_nothing(machine: Machine) -> None:
    agent = known(Counter())
    rows.grant(tool="move_money", rules=TO_X)
    assert machine.start(agent).interruption == "approval_required"


def test_a_grant_passes_as_often_as_it_says_and_no_more(machine: Machine) -> None:
    tool = Counter()
    call = Call("move_money", {"to": "x"})
    agent = known(tool, rounds=[[call, call, call]])
    grant_for(machine, max_uses=2)
    session = machine.start(agent)
    assert sorted(c.state for c in machine.calls(session)) == ["awaiting_approval", "prepared", "prepared"]
    assert tool.count == 0, "a round is authorised as a whole before any of it runs"
    machine.decide(machine.approvals(session)[0], "approve", machine.carol)
    assert machine.run(session).state == "completed"
    assert (tool.count, Grant.objects.get().uses) == (3, 2)
    assert machine.start(agent).interruption == "approval_required"


def test_two_grants_add_up_and_the_one_that_ends_first_is_used_first(machine: Machine) -> None:
    tool = Counter()
    call = Call("move_money", {"to": "x"})
    agent = known(tool, rounds=[[call, call]])
    long = grant_for(machine, max_uses=5, lasts=timedelta(days=3))
    short = grant_for(machine, max_uses=1)
    assert machine.start(agent).state == "completed"
    assert [Grant.objects.get(pk=g.pk).uses for g in (long, short)] == [1, 1]


def test_time_ends_a_grant_by_the_databases_clock(machine: Machine) -> None:
    agent = known(Counter())
    grant_for(machine, lasts=timedelta(hours=1))
    with clock.shifted(timedelta(minutes=61)):
        assert machine.start(agent).interruption == "approval_required"


def held_back(machine: Machine, tool: Counter, **options: Any) -> tuple[Any, Grant]:
    """A call that passed and waits for the kill switch."""
    agent = known(tool)
    grant = grant_for(machine, **options)
    pause_dispatch(machine.bob, reason="the ledger is moved", tenant=machine.tenant)
    session = machine.start(agent)
    assert [c.state for c in machine.calls(session)] == ["prepared"]
    resume_dispatch(machine.bob, tenant=machine.tenant)
    return session, grant


def test_the_kill_switch_holds_what_passed(machine: Machine) -> None:
    tool = Counter()
    session, grant = held_back(machine, tool)
    assert tool.count == 0
    assert machine.run(session).state == "completed"
    assert (tool.count, Grant.objects.get(pk=grant.pk).uses) == (1, 1)


def test_what_passed_under_a_grant_that_was_taken_back_does_not_begin(machine: Machine) -> None:
    tool = Counter()
    session, grant = held_back(machine, tool)
    revoke_grant(machine.tenant, machine.carol, grant.pk, reason="the week is over")
    machine.run(session)
    (call,) = machine.calls(session)
    assert (call.state, call.reason, tool.count) == ("blocked", "stale", 0)
    assert "taken back" in call.result["reason"]
    assert Approval.objects.get(session=session).state == "void"
    assert machine.effect(session).state == "abandoned"
    assert session.state == "completed", "the agent was told and may ask again"


def test_what_passed_under_a_grant_that_ended_expires(machine: Machine) -> None:
    tool = Counter()
    session, _ = held_back(machine, tool, lasts=timedelta(minutes=5))
    with clock.shifted(timedelta(minutes=6)):
        engine.run_session(session.pk, "worker-1")
    assert ([c.state for c in machine.calls(session)], tool.count) == (["expired"], 0)


def test_a_person_takes_back_one_call_that_passed(machine: Machine) -> None:
    tool = Counter()
    session, _ = held_back(machine, tool)
    approval = Approval.objects.get(session=session)
    seen: dict[str, Any] = {
        "version": approval.version,
        "digest": approval.intent_digest.hex(),
        "reason": "not this one",
    }
    revoke_approval(machine.tenant, machine.carol, approval.pk, **seen)
    machine.run(session)
    assert ([c.state for c in machine.calls(session)], tool.count) == (["denied"], 0)


def test_what_was_denied_is_not_let_through_by_a_grant_that_comes_later(machine: Machine) -> None:
    tool = Counter()
    call = [Call("move_money", {"to": "x"})]
    session = machine.start(agent_of(tool, policy=ASK, rounds=[call, call]))
    machine.decide(machine.approvals(session)[0], "deny")
    grant_for(machine)
    machine.run(session)
    assert [(c.state, c.reason) for c in machine.calls(session)][1] == ("blocked", "denied_before")
    assert (tool.count, Grant.objects.get().uses) == (0, 0)


def test_what_equals_an_uncertain_action_waits_for_a_person(machine: Machine) -> None:
    def breaks(ctx: Any, args: Any) -> Any:
        raise ConnectionError("gone")

    tool = Counter(does=breaks)
    agent = known(tool)
    grant_for(machine)
    assert machine.start(agent).interruption == "effect_outcome_unknown"
    second = machine.start(agent)
    assert second.interruption == "approval_required"
    assert machine.calls(second)[0].held_by_id is not None
    assert (tool.count, Grant.objects.get().uses) == (1, 1)


def test_a_restored_backup_ends_every_grant_that_was_made_before(machine: Machine) -> None:
    agent = known(Counter())
    grant = grant_for(machine)
    rows.quarantine(tenant=machine.tenant, started_at=grant.made_at + timedelta(seconds=1))
    assert machine.start(agent).interruption == "approval_required"


def test_a_call_without_effect_passes_too_when_its_policy_asks(machine: Machine) -> None:
    tool = Counter(effect=ToolEffect.NONE)
    agent = known(tool)
    grant_for(machine)
    assert machine.start(agent).state == "completed"
    assert (tool.count, Grant.objects.get().uses) == (1, 1)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"tool": "no_such"}, "There is no tool 'no_such'"),
        ({"agent": "nobody"}, "There is no agent 'nobody'"),
        ({"reason": " "}, "Say why"),
        ({"lasts": timedelta(days=31)}, "30 days"),
        ({"lasts": timedelta(0)}, "one minute"),
        ({"max_uses": 0}, "from 1 to"),
        ({"max_uses": 1001}, "from 1 to"),
        ({"rules": "{"}, "can't be read"),
        ({"rules": []}, "one JSON object"),
        ({"rules": {"to": {"mix": 1}}}, "can't be read"),
        ({"rules": {"to": {"min": 5, "max": 4}}}, "Swap"),
        ({"rules": {"to": {"min": 5, "max": "6"}}}, "both"),
        ({"rules": {"to": {"min": True}}}, "both"),
        ({"rules": {"to": {"min": float("nan")}}}, "no exact JSON"),
        ({"rules": {"to": {"one_of": []}}}, "one_of"),
        ({"rules": {"to": {"any": False}}}, "true or left out"),
        ({"rules": {"to..x": {"any": True}}}, "no path"),
        ({"rules": {"to.name": {"any": True}}}, "no argument 'to.name'"),
        ({"rules": {"to": {"any": True}, "to.x": {"any": True}}}, "inside another"),
    ],
)
def test_a_grant_that_makes_no_sense_is_refused_with_a_sentence(machine: Machine, given: Any, said: str) -> None:
    known(Counter())
    with pytest.raises(InvalidRequest, match=said.replace("'", ".")):
        grant_for(machine, **given)
    assert not Grant.objects.exists()


def test_making_and_taking_back_stand_on_the_tenants_chain(machine: Machine) -> None:
    known(Counter())
    grant = grant_for(machine)
    revoke_grant(machine.tenant, machine.carol, grant.pk, reason="over")
    with pytest.raises(Conflict, match="already, by carol"):
        revoke_grant(machine.tenant, machine.bob, grant.pk, reason="again")
    entries = AuditEntry.objects.filter(tenant=machine.tenant).order_by("seq")
    assert [(e.type, e.actor, e.payload["grant"]) for e in entries] == [
        ("grant.made", "user:bob", str(grant.pk)),
        ("grant.revoked", "user:carol", str(grant.pk)),
    ]
