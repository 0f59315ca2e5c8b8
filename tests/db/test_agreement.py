"""Several people agree to one call: stages, tiers, escalation, conditions; an edit begins anew (CASES A14, A15)."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from cayu_runtime import Agreement, Call, PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, Stage, ToolPolicy
from cayu_runtime.core import agreement as agreeing
from cayu_runtime.core import clock
from cayu_runtime.errors import AlreadyDecided, ApprovalExpired, InvalidRequest, StaleVersion
from cayu_runtime.models import Approval, Decision, Event, Session
from cayu_runtime.services.approval import Item, decide_many, revoke_approval
from cayu_runtime.worker.sweep import expire_due
from tests.db.test_quarantine import BARRED
from tests.machine import Counter, Machine, agent_of
from tests.settling import Adapter, Downstream, look_up

pytestmark = pytest.mark.django_db(transaction=True)
TWO = Agreement((Stage(people=2),))


class Wants(ToolPolicy):
    """Asks as many people as it is told to."""

    identity = PolicyIdentity("wants", "1", {})

    def __init__(self, wanted: Agreement, **more: Any) -> None:
        self.wanted = wanted
        self.more = more

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        return PolicyResult(PolicyDecision.REQUIRE_APPROVAL, agreement=self.wanted, **self.more)


def waiting(
    machine: Machine, wanted: Agreement = TWO, tool: Counter | None = None, **more: Any
) -> tuple[Session, Approval]:
    session = machine.start(agent_of(tool or Counter(), policy=Wants(wanted, **more)))
    (approval,) = machine.approvals(session)
    return session, approval


def fresh(approval: Approval) -> Approval:
    return Approval.objects.get(pk=approval.pk)


def told(machine: Machine, session: Session) -> Any:
    return machine.transcript(session)[2]["parts"][0]["content"]


def test_nothing_runs_before_two_different_people_agreed(machine: Machine) -> None:
    tool = Counter()
    session, approval = waiting(machine, tool=tool)
    first = machine.decide(approval, "approve")
    assert (first.replay, first.approval.state, first.approval.needed) == (False, "pending", 1)
    again = machine.decide(approval, "approve")
    assert (again.replay, again.decision.pk, again.approval.needed) == (True, first.decision.pk, 1)
    machine.run(session)
    assert (session.state, session.interruption, tool.count) == ("interrupted", "approval_required", 0)
    second = machine.decide(approval, "approve", machine.carol)  # what she saw is as it was: the same version
    assert (second.approval.state, second.approval.needed) == ("approved", 0)
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)
    kinds = machine.events(session)
    assert (kinds.count("tool.call.approval_counted"), kinds.count("tool.call.approved")) == (1, 1)
    assert fresh(approval).decided_by == second.decision
    for person, decision in ((machine.bob, first.decision), (machine.carol, second.decision)):
        late = machine.decide(approval, "approve", person)
        assert (late.replay, late.decision.pk) == (True, decision.pk)
    with pytest.raises(AlreadyDecided, match="approved by carol"):
        machine.decide(approval, "approve", machine.person("dora"))


def test_one_denial_ends_it_also_of_somebody_who_agreed(machine: Machine) -> None:
    tool = Counter()
    session, approval = waiting(machine, tool=tool)
    machine.decide(approval, "approve")
    machine.decide(approval, "deny", reason="I looked again.")
    machine.run(session)
    assert (session.state, tool.count, fresh(approval).state) == ("completed", 0, "denied")
    with pytest.raises(AlreadyDecided):
        machine.decide(approval, "approve", machine.carol)


def test_stages_are_asked_one_after_the_other_and_nobody_counts_twice(machine: Machine) -> None:
    _, approval = waiting(machine, Agreement((Stage(1), Stage(2, tier=2))))
    people = [machine.bob, machine.carol, machine.person("dora")]
    seen = []
    for person in people:
        machine.decide(approval, "approve", person)
        machine.decide(approval, "approve", machine.bob)
        row = fresh(approval)
        seen.append((row.state, row.stage, row.needed, row.tier))
    assert seen == [("pending", 1, 2, 2), ("pending", 1, 1, 2), ("approved", 1, 0, 2)]


def test_conditions_reach_tool_and_model_in_their_order(machine: Machine) -> None:
    tool = Counter()
    session, approval = waiting(machine, Agreement((Stage(3),), conditions=True), tool)
    machine.decide(approval, "approve", condition="Only before noon.")
    machine.decide(approval, "approve", machine.carol)
    machine.decide(approval, "approve", machine.person("dora"), condition="Tell the customer.")
    machine.run(session)
    conditions = ["Only before noon.", "Tell the customer."]
    assert [ctx.conditions for ctx in tool.seen] == [tuple(conditions)]
    assert told(machine, session)["approved_under_conditions"] == conditions
    assert [
        e.payload.get("condition") for e in Event.objects.filter(type="tool.call.approval_counted").order_by("seq")
    ] == [
        "Only before noon.",
        None,
    ]


def test_a_condition_is_taken_where_the_policy_takes_one_and_never_shortened(machine: Machine) -> None:
    _, approval = waiting(machine)
    with pytest.raises(InvalidRequest, match="takes no condition"):
        machine.decide(approval, "approve", condition="Only before noon.")
    _, approval = waiting(machine, Agreement(conditions=True))
    for wrong, said in (("x" * 501, "never shortened"), (" \u200b", "never shortened")):
        with pytest.raises(InvalidRequest, match=said):
            machine.decide(approval, "approve", condition=wrong)
    with pytest.raises(InvalidRequest, match="Only an agreement"):
        machine.decide(approval, "deny", condition="Only before noon.")
    assert not Decision.objects.exists()


def test_what_is_not_agreed_in_time_asks_a_tier_more_once_for_each_stage(machine: Machine) -> None:
    session, approval = waiting(machine, Agreement((Stage(1), Stage(1, 3)), escalate_after=60))
    assert not agreeing.escalate(session.pk, approval.pk)
    with clock.shifted(timedelta(seconds=61)):
        expire_due()
        expire_due()
        row = fresh(approval)
        assert (row.state, row.tier, row.needed, row.escalate_at) == ("pending", 2, 1, None)
        assert machine.events(session).count("tool.call.approval_escalated") == 1
        machine.decide(approval, "approve")
        row = fresh(approval)
        assert (row.state, row.stage, row.tier) == ("pending", 1, 3)
        assert row.escalate_at is not None
    with clock.shifted(timedelta(seconds=130)):
        expire_due()
        assert fresh(approval).tier == 4


def test_a_half_agreed_one_expires_and_says_so_to_the_next(machine: Machine) -> None:
    tool = Counter()
    session, approval = waiting(machine, tool=tool, expires_in=60)
    machine.decide(approval, "approve")
    with clock.shifted(timedelta(seconds=61)):
        with pytest.raises(ApprovalExpired):
            machine.decide(approval, "approve", machine.carol)
        machine.run(session)
    assert (session.state, tool.count, fresh(approval).state) == ("completed", 0, "expired")


@pytest.mark.parametrize(
    "people, tier, escalates, deadline",
    list(itertools.product((1, 2, 5), (1, 9), (None, 30.0), (60.0, None, 30 * 86400.0))),
)
def test_no_time_ever_becomes_an_agreement(  # A14
    machine: Machine, people: int, tier: int, escalates: float | None, deadline: float | None
) -> None:
    tool = Counter()
    wanted = Agreement((Stage(people, tier), Stage(people, 9)), escalates, conditions=True)
    session, approval = waiting(machine, wanted, tool, expires_in=deadline)
    for number in range(people):
        machine.decide(approval, "approve", machine.person(f"person-{number}"))
    for seconds in (31, 61, 92, 8 * 86400, 31 * 86400):
        with clock.shifted(timedelta(seconds=seconds)):
            expire_due()
            machine.run(session)
            assert fresh(approval).state in ("pending", "expired")
            assert tool.count == 0
    assert fresh(approval).state == "expired"
    assert machine.calls(session)[0].state == "expired"


def test_an_approval_that_is_taken_back_after_all_agreed_runs_nothing(machine: Machine) -> None:
    tool = Counter()
    session, approval = waiting(machine, tool=tool)
    machine.decide(approval, "approve")
    machine.decide(approval, "approve", machine.carol)
    digest = bytes(approval.intent_digest).hex()
    revoke_approval(machine.tenant, machine.bob, approval.pk, version=1, digest=digest, reason="no")
    machine.run(session)
    assert (tool.count, fresh(approval).state) == (0, "revoked")


def test_a_condition_of_an_approval_that_is_over_is_not_said_of_the_next(machine: Machine) -> None:
    tool = Downstream(Adapter(BARRED))
    session = machine.start(agent_of(tool, policy=Wants(Agreement(conditions=True))))
    machine.decide(machine.approvals(session)[0], "approve", condition="Only before noon.")
    machine.run(session)
    look_up(machine, machine.effect(session))
    (again,) = machine.approvals(session)
    machine.decide(again, "approve")
    machine.run(session)
    assert [ctx.conditions for ctx in tool.seen] == [("Only before noon.",), ()]
    assert "approved_under_conditions" not in told(machine, session)


# ---- edits ----


class Changeable(Wants):
    """Wants the more people, the longer the name is."""

    def authorize(self, request: PolicyRequest) -> PolicyResult:
        agreement = Agreement((Stage(len(request.arguments["to"])),), conditions=self.wanted.conditions)
        return PolicyResult(PolicyDecision.REQUIRE_APPROVAL, agreement=agreement, editable=True, **self.more)


def changeable(machine: Machine, tool: Counter, **more: Any) -> tuple[Session, Approval]:
    agent = agent_of(tool, policy=Changeable(TWO, **more), rounds=[[Call("move_money", {"to": "xy"})]])
    session = machine.start(agent)
    (approval,) = machine.approvals(session)
    return session, approval


def test_under_four_eyes_an_edit_only_changes_and_those_who_agreed_before_are_asked_again(machine: Machine) -> None:
    tool = Counter()
    session, approval = changeable(machine, tool, four_eyes=True)
    machine.decide(approval, "approve")
    changed = machine.decide(approval, "approve", machine.carol, arguments={"to": "abc"})
    assert (changed.decision.verdict, changed.approval.state) == ("edit", "pending")
    row = fresh(approval)
    assert (row.version, row.needed, row.edited_by) == (2, 3, "user:carol")
    again = machine.decide(approval, "approve", machine.carol, arguments={"to": "abc"})
    assert (again.replay, again.decision.pk) == (True, changed.decision.pk)
    with pytest.raises(StaleVersion):
        machine.decide(approval, "approve", machine.person("dora"))
    for name in ("bob", "dora", "erin"):
        machine.decide(row, "approve", machine.person(name))
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)
    assert machine.calls(session)[0].arguments == {"to": "abc"}
    assert told(machine, session)["edited"]["arguments"] == {"to": "abc"}
    event = Event.objects.get(session=session, type="tool.call.edited").payload
    assert (event["before"], event["after"], event["by"]) == ({"to": "xy"}, {"to": "abc"}, "user:carol")


def test_without_four_eyes_the_editor_is_the_first_to_agree(machine: Machine) -> None:
    tool = Counter()
    session, approval = changeable(machine, tool, four_eyes=False)
    machine.decide(approval, "approve")
    changed = machine.decide(approval, "approve", machine.carol, arguments={"to": "ab"})
    assert (changed.decision.verdict, changed.approval.state, changed.approval.needed) == ("approve", "pending", 1)
    machine.decide(fresh(approval), "approve", machine.bob)
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)


def test_a_change_and_a_condition_are_not_sent_together(machine: Machine) -> None:
    agent = agent_of(Counter(), policy=Changeable(Agreement(conditions=True), four_eyes=False))
    (approval,) = machine.approvals(machine.start(agent))
    with pytest.raises(InvalidRequest, match="not both"):
        machine.decide(approval, "approve", arguments={"to": "ab"}, condition="by noon")


def test_decided_in_a_set_it_counts_as_one_of_them(machine: Machine) -> None:
    from cayu_runtime import ToolEffect

    session, approval = waiting(machine, tool=Counter("label", ToolEffect.IDEMPOTENT))
    item = Item(approval.pk, 1, bytes(approval.intent_digest).hex())
    (answered,) = decide_many(machine.tenant, machine.bob, [item], verdict="approve")
    assert (answered.code, answered.approval and answered.approval.state) == ("done", "pending")
    (answered,) = decide_many(machine.tenant, machine.carol, [item], verdict="approve")
    assert (answered.code, answered.approval and answered.approval.state) == ("done", "approved")
    assert machine.run(session).state == "completed"


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: Stage(people=0), "from 1 to 20"),
        (lambda: Stage(tier=10), "from 1 to 9"),
        (lambda: Stage(people=True), "whole number"),
        (lambda: Agreement(()), "1 to 9 stages"),
        (lambda: Agreement((Stage(1, 2), Stage(1, 1))), "go upwards"),
        (lambda: Agreement(escalate_after=0), "escalate_after"),
        (lambda: Agreement(escalate_after=float("nan")), "escalate_after"),
        (lambda: Agreement(escalate_after=31 * 86400), "escalate_after"),
    ],
)
def test_an_agreement_that_makes_no_sense_is_refused_when_it_is_made(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
