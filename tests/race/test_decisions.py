"""Rival decisions, expiries, dispatches and stops on one session, in both orders."""

from datetime import timedelta

import pytest
from django_q.models import OrmQ

from cayu_runtime import Agreement, Stage
from cayu_runtime.core import agreement, clock, decisions, engine, rounds
from cayu_runtime.core.decisions import Decided
from cayu_runtime.core.lease import Claim, Keeper, claim
from cayu_runtime.errors import AlreadyDecided, ApprovalExpired, Conflict
from cayu_runtime.models import Approval, Decision, Event, Session
from cayu_runtime.policies import RequireApproval
from cayu_runtime.services.approval import revoke_approval
from cayu_runtime.services.session import interrupt_session
from tests.machine import Counter, Gate, Machine, agent_of
from tests.race.rivals import race, together

pytestmark = pytest.mark.postgres
ASK = Gate(move_money="require_approval")


@pytest.mark.parametrize("first, second", [("approve", "deny"), ("deny", "approve"), ("approve", "approve")])
def test_the_second_of_two_decisions_waits_and_is_told_the_winner(machine, monkeypatch, first, second):  # A6
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    approval = machine.approvals(session)[0]
    won, lost = race(
        monkeypatch,
        lambda: machine.decide(approval, first, machine.bob),
        lambda: machine.decide(approval, second, machine.carol),
    )
    assert isinstance(won, Decided)
    assert isinstance(lost, AlreadyDecided)
    assert lost.details["winner"]["by"] == "bob"
    machine.run(session)
    assert tool.count == (first == "approve")


def test_of_twenty_people_who_decide_at_one_moment_one_decides(machine):  # A4
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    approval = machine.approvals(session)[0]
    people = [machine.person(f"person-{n}") for n in range(20)]
    rung = OrmQ.objects.count()

    outcomes = together(20, lambda n: machine.decide(approval, "approve" if n % 2 else "deny", people[n]))

    assert sum(isinstance(o, Decided) for o in outcomes) == 1
    losers = [o for o in outcomes if isinstance(o, AlreadyDecided)]
    assert len(losers) == 19
    winner = Decision.objects.get(approval=approval)
    assert {o.details["winner"]["by"] for o in losers} == {winner.actor_name}
    assert machine.events(session).count("session.resumed") == 1
    assert OrmQ.objects.count() - rung == 1
    machine.run(session)
    assert (session.state, tool.count) == ("completed", winner.verdict == "approve")


def test_the_same_person_twice_at_one_moment_is_one_decision_and_its_replay(machine, monkeypatch):  # A5
    session = machine.start(agent_of(Counter(), policy=ASK))
    approval = machine.approvals(session)[0]
    first, second = race(
        monkeypatch, lambda: machine.decide(approval, "approve"), lambda: machine.decide(approval, "approve")
    )
    assert (first.replay, second.replay, first.decision.pk) == (False, True, second.decision.pk)


@pytest.mark.parametrize("decision_first", [True, False])
def test_a_decision_and_its_expiry_leave_one_truth(machine, monkeypatch, decision_first):  # A12, A13
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate(move_money=("require_approval", 60))))
    approval = machine.approvals(session)[0]

    def decide():
        return machine.decide(approval, "approve")

    def expire():
        monkeypatch.setattr(clock, "_offset", timedelta(seconds=61))
        return decisions.expire(session.pk, approval.pk)

    first, second = race(monkeypatch, decide, expire) if decision_first else race(monkeypatch, expire, decide)
    if decision_first:
        assert isinstance(first, Decided)
        assert second is True, "an approved call that was not dispatched in time expires too"
    else:
        assert first is True
        assert isinstance(second, ApprovalExpired)
    machine.run(session)
    assert (tool.count, Approval.objects.get(pk=approval.pk).state) == (0, "expired")


def taken(session: Session) -> Claim:
    claimed = claim(session.pk, "worker-1")
    assert claimed is not None
    return claimed


def go_on(held: Claim) -> None:
    """What the holder of a lease does next: the first thing that it commits is T3."""
    with Keeper(held.lease) as keeper:
        engine._go_on(held, keeper, lambda: False)


@pytest.mark.parametrize("dispatch_first", [True, False])
def test_a_dispatch_and_a_stop_leave_one_truth(machine, monkeypatch, dispatch_first):  # B14
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    held = taken(session)

    def dispatch():
        return go_on(held)

    def stop():
        return interrupt_session(machine.tenant, machine.bob, session.session_id)

    race(monkeypatch, dispatch, stop) if dispatch_first else race(monkeypatch, stop, dispatch)
    session.refresh_from_db()
    call, effect = machine.calls(session)[0], machine.effect(session)
    assert (session.state, session.interruption) == ("interrupted", "operator_requested")
    assert tool.count == dispatch_first
    if dispatch_first:
        assert (call.state, effect.state) == ("completed", "completed")
    else:
        assert (call.state, effect.state, call.result["executed"]) == ("failed", "abandoned", False)


@pytest.mark.parametrize("dispatch_first", [True, False])
def test_a_dispatch_and_an_expiry_leave_one_truth(machine, monkeypatch, dispatch_first):  # A13
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate(move_money=("require_approval", 60))))
    approval = machine.approvals(session)[0]
    machine.decide(approval, "approve")
    held = taken(session)

    def dispatch():
        return go_on(held)

    def expire():
        monkeypatch.setattr(clock, "_offset", timedelta(seconds=61))
        return decisions.expire(session.pk, approval.pk)

    if dispatch_first:
        _, expired = race(monkeypatch, dispatch, expire)
    else:
        expired, _ = race(monkeypatch, expire, dispatch)
    monkeypatch.setattr(clock, "_offset", timedelta(seconds=130))
    machine.run(session)
    assert (expired, tool.count, session.state) == (not dispatch_first, dispatch_first, "completed")
    done = ("completed", "completed") if dispatch_first else ("expired", "abandoned")
    assert (machine.calls(session)[0].state, machine.effect(session).state) == done


@pytest.mark.parametrize("dispatch_first", [True, False])
def test_a_dispatch_and_a_revocation_leave_one_truth(machine, monkeypatch, dispatch_first):
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    approval = machine.approvals(session)[0]
    machine.decide(approval, "approve")
    held = taken(session)
    seen = {"version": approval.version, "digest": bytes(approval.intent_digest).hex(), "reason": "wrong"}

    def dispatch():
        return go_on(held)

    def revoke():
        return revoke_approval(machine.tenant, machine.carol, approval.pk, **seen)

    if dispatch_first:
        _, revoked = race(monkeypatch, dispatch, revoke)
        assert isinstance(revoked, Conflict)
        assert "Too late" in revoked.message
    else:
        revoked, _ = race(monkeypatch, revoke, dispatch)
        assert isinstance(revoked, Decided)
    monkeypatch.setattr(clock, "_offset", timedelta(seconds=130))  # the holder who lost is taken over
    machine.run(session)
    approval.refresh_from_db()
    assert (session.state, tool.count) == ("completed", dispatch_first)
    assert approval.state == ("consumed" if dispatch_first else "revoked")


@pytest.mark.parametrize("stop_first", [True, False])
def test_a_stop_and_the_end_of_the_session_leave_one_truth(machine, monkeypatch, stop_first):  # B14
    agent = agent_of(Counter(), policy=Gate(), rounds=[])
    session = machine.start(agent, run=False)

    def stop():
        return interrupt_session(machine.tenant, machine.bob, session.session_id)

    mine = machine.claim(session)

    def finish():
        return rounds.record_step(mine, {"kind": "response", "parts": []}, {}, [])

    _, second = race(monkeypatch, stop, finish) if stop_first else race(monkeypatch, finish, stop)
    session.refresh_from_db()
    if stop_first:
        assert (session.state, session.interruption) == ("interrupted", "operator_requested")
    else:
        assert session.state == "completed"
        assert isinstance(second, Conflict)


def test_two_decisions_in_one_round_at_one_moment_start_it_once(machine, monkeypatch):  # A9
    one, two = Counter("pay_a"), Counter("pay_b")
    policy = Gate(pay_a="require_approval", pay_b="require_approval")
    session = machine.start(agent_of(one, two, policy=policy))
    first, second = machine.approvals(session)
    outcomes = race(
        monkeypatch,
        lambda: machine.decide(first, "approve", machine.bob),
        lambda: machine.decide(second, "approve", machine.carol),
    )
    assert all(isinstance(o, Decided) for o in outcomes)
    assert machine.events(session).count("session.resumed") == 1
    machine.run(session)
    assert (one.count, two.count, session.state) == (1, 1, "completed")


def test_a_hundred_wakeups_at_one_moment_run_a_session_once(machine):  # B11
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    machine.decide(machine.approvals(session)[0], "approve")
    for _ in range(5):
        together(20, lambda n: machine.run(Machine.copy(session), f"worker-{n}") and None)
    session.refresh_from_db()
    assert (tool.count, session.state) == (1, "completed")
    assert Event.objects.filter(session=session, type="tool.call.started").count() == 1


def test_events_stay_gapless_when_many_write(machine):
    sessions = [machine.start(agent_of(Counter(), policy=ASK)) for _ in range(3)]
    approvals = [machine.approvals(session)[0] for session in sessions]
    together(12, lambda n: machine.decide(approvals[n % 3], "deny", machine.person(f"p{n}")))
    for session in sessions:
        seqs = list(Event.objects.filter(session=session).order_by("seq").values_list("seq", flat=True))
        assert seqs == list(range(1, len(seqs) + 1))


TWO = RequireApproval(("move_money",), agreement=Agreement((Stage(2),)))


def test_the_last_two_agreements_at_one_moment_are_one_approval(machine, monkeypatch):
    tool = Counter()
    session = machine.start(agent_of(tool, policy=TWO))
    approval = machine.approvals(session)[0]
    first, second = race(
        monkeypatch,
        lambda: machine.decide(approval, "approve", machine.bob),
        lambda: machine.decide(approval, "approve", machine.carol),
    )
    assert (first.approval.state, second.approval.state) == ("pending", "approved")
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)
    assert machine.events(session).count("session.resumed") == 1


def test_one_person_twice_at_one_moment_counts_once(machine, monkeypatch):
    session = machine.start(agent_of(Counter(), policy=TWO))
    approval = machine.approvals(session)[0]
    first, second = race(
        monkeypatch, lambda: machine.decide(approval, "approve"), lambda: machine.decide(approval, "approve")
    )
    assert (first.replay, second.replay, first.decision.pk) == (False, True, second.decision.pk)
    assert Approval.objects.get(pk=approval.pk).needed == 1


@pytest.mark.parametrize("denial_first", [True, False])
def test_the_last_agreement_and_a_denial_leave_one_truth(machine, monkeypatch, denial_first):
    tool = Counter()
    session = machine.start(agent_of(tool, policy=TWO))
    approval = machine.approvals(session)[0]
    machine.decide(approval, "approve", machine.person("dora"))
    deeds = [
        lambda: machine.decide(approval, "deny", machine.bob),
        lambda: machine.decide(approval, "approve", machine.carol),
    ]
    won, lost = race(monkeypatch, *(deeds if denial_first else reversed(deeds)))
    assert isinstance(won, Decided)
    assert isinstance(lost, AlreadyDecided)
    machine.run(session)
    assert tool.count == (not denial_first)


@pytest.mark.parametrize("agreement_first", [True, False])
@pytest.mark.parametrize("last", [True, False])
def test_an_agreement_and_the_expiry_leave_one_truth(machine, monkeypatch, agreement_first, last):
    tool = Counter()
    policy = RequireApproval(("move_money",), 60, agreement=Agreement((Stage(2),)))
    session = machine.start(agent_of(tool, policy=policy))
    approval = machine.approvals(session)[0]
    if last:
        machine.decide(approval, "approve", machine.carol)

    def agree():
        return machine.decide(approval, "approve")

    def expire():
        monkeypatch.setattr(clock, "_offset", timedelta(seconds=61))
        return decisions.expire(session.pk, approval.pk)

    first, second = race(monkeypatch, *((agree, expire) if agreement_first else (expire, agree)))
    agreed, expired = (first, second) if agreement_first else (second, first)
    assert expired is True
    assert isinstance(agreed, Decided if agreement_first else ApprovalExpired)
    machine.run(session)
    assert (tool.count, Approval.objects.get(pk=approval.pk).state) == (0, "expired")


@pytest.mark.parametrize("agreement_first", [True, False])
def test_the_last_agreement_and_an_escalation_leave_one_truth(machine, monkeypatch, agreement_first):
    policy = RequireApproval(("move_money",), agreement=Agreement((Stage(1),), escalate_after=60))
    session = machine.start(agent_of(Counter(), policy=policy))
    approval = machine.approvals(session)[0]
    monkeypatch.setattr(clock, "_offset", timedelta(seconds=61))
    agree = lambda: machine.decide(approval, "approve")  # noqa: E731
    escalate = lambda: agreement.escalate(session.pk, approval.pk)  # noqa: E731
    outcomes = race(monkeypatch, *((agree, escalate) if agreement_first else (escalate, agree)))
    row = Approval.objects.get(pk=approval.pk)
    assert (row.state, row.tier) == ("approved", 1 if agreement_first else 2)
    assert True in outcomes or agreement_first
