"""Giving a session up, and answers that come late, in each state of the effect (DESIGN §6, §7; CASES C8, C17)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.utils import timezone

from cayu_runtime import Call, Finding, Observation, ToolResult, Verdict, Verification
from cayu_runtime.core.dispatch import Dispatch
from cayu_runtime.core.late import record_late
from cayu_runtime.core.lease import Lease
from cayu_runtime.core.perform import Done, NotDone
from cayu_runtime.errors import Conflict, InvalidRequest
from cayu_runtime.models import Approval, Attempt, EffectRecord, Event, Session
from cayu_runtime.services.session import abandon_session
from tests.machine import Counter, Gate, Machine, agent_of
from tests.settling import Adapter, Downstream, Looks, look_up, unknown

pytestmark = pytest.mark.django_db(transaction=True)
BARRED = Observation(Finding.ABSENT, barred=True)


def give_up(machine: Machine, session: Session) -> Session:
    abandon_session(machine.tenant, machine.bob, session.session_id, reason="the customer withdrew")
    session.refresh_from_db()
    return session


# ---- giving up ----


def test_an_unknown_effect_stays_unknown_and_its_call_gets_a_result(machine: Machine) -> None:  # C8
    session, effect = unknown(machine, Downstream(Adapter(Finding.CONFIRMED_DONE)))
    fence = session.fence
    give_up(machine, session)
    effect.refresh_from_db()
    (call,) = machine.calls(session)
    assert (session.state, session.fence, effect.state) == ("failed", fence + 1, "outcome_unknown")
    assert effect.abandoned_at is not None
    assert (call.state, call.result["outcome_unknown"], call.result["executed"]) == ("failed", True, False)
    assert "the customer withdrew" in (session.failure or "")
    assert machine.transcript(session)[-1]["parts"][0]["content"]["outcome_unknown"] is True


def test_evidence_still_settles_it_and_wakes_nothing(machine: Machine) -> None:
    session, effect = unknown(machine, Downstream(Adapter(Finding.CONFIRMED_DONE)))
    give_up(machine, session)
    look_up(machine, effect)
    machine.run(session)
    effect.refresh_from_db()
    assert (effect.state, session.state, machine.calls(session)[0].state) == ("completed", "failed", "failed")


def test_a_proof_of_absence_then_offers_nothing(machine: Machine) -> None:
    session, effect = unknown(machine, Downstream(Adapter(BARRED)))
    give_up(machine, session)
    look_up(machine, effect)
    effect.refresh_from_db()
    assert (effect.state, machine.approvals(session)) == ("rejected", [])


def test_what_waits_and_what_is_offered_again_ends_undone(machine: Machine) -> None:
    pay = Counter()
    rounds = [[Call("move_money", {"to": "x"}), Call("move_money", {"to": "y"})]]
    session = machine.start(agent_of(pay, policy=Gate(move_money="require_approval"), rounds=rounds))
    machine.decide(machine.approvals(session)[0], "approve")
    give_up(machine, session)
    assert [call.state for call in machine.calls(session)] == ["failed", "cancelled"]
    assert set(EffectRecord.objects.filter(session=session).values_list("state", flat=True)) == {"abandoned"}
    assert set(Approval.objects.filter(session=session).values_list("state", flat=True)) == {"cancelled"}
    assert (pay.count, session.state) == (0, "failed")


def test_a_retry_that_was_offered_is_over(machine: Machine) -> None:
    session, effect = unknown(machine, Downstream(Adapter(BARRED)))
    look_up(machine, effect)
    give_up(machine, session)
    effect.refresh_from_db()
    assert (effect.state, machine.calls(session)[0].state) == ("rejected", "cancelled")


def test_the_holder_of_a_session_that_is_given_up_is_fenced_off(machine: Machine) -> None:
    def gives_up(ctx: Any, args: Any) -> ToolResult:
        give_up(machine, session)
        return ToolResult("booked")

    session = machine.start(agent_of(Counter(does=gives_up), policy=Gate()), run=False)
    machine.run(session)
    effect = machine.effect(session)
    assert (session.state, machine.calls(session)[0].state) == ("failed", "failed")
    assert effect.state == "completed", "what its tool said is evidence still"
    assert effect.abandoned_at is not None


def test_giving_up_needs_a_reason_and_something_to_give_up(machine: Machine) -> None:
    session = machine.start(agent_of(Counter(), policy=Gate()))
    with pytest.raises(Conflict, match="completed already"):
        give_up(machine, session)
    other, _ = unknown(machine, Downstream(None))
    with pytest.raises(InvalidRequest, match="Say why"):
        abandon_session(machine.tenant, machine.bob, other.session_id, reason=" ")


# ---- late outcomes (C17) ----


def late(machine: Machine, session: Session, effect: EffectRecord, *, done: bool = True) -> Attempt:
    """The tool of the first dispatch answers now."""
    dispatch = Attempt.objects.filter(effect=effect, kind="dispatch").order_by("admitted_at").first()
    assert dispatch is not None
    assert dispatch.dispatch_id is not None
    lease = Lease(session.pk, session.tenant_id, 1, "worker-1")
    outcome = Done(ToolResult("late")) if done else NotDone(ToolResult("no", is_error=True))
    record_late(lease, effect.call_id, Dispatch(dispatch.dispatch_id, timezone.now(), 0.0, replayed=False), outcome)
    effect.refresh_from_db()
    session.refresh_from_db()
    return Attempt.objects.get(effect=effect, kind="late_outcome")


def told(session: Session) -> dict[str, Any]:
    payload: dict[str, Any] = Event.objects.get(session=session, type="tool.effect.late_outcome").payload
    return payload


@pytest.mark.parametrize("review", [False, True], ids=["outcome_unknown", "manual_review"])
@pytest.mark.parametrize("done", [True, False])
def test_a_late_outcome_settles_what_is_uncertain(machine: Machine, done: bool, review: bool) -> None:
    session, effect = unknown(machine, Downstream(Adapter(Finding.UNAVAILABLE)))
    if review:
        look_up(machine, effect)
    attempt = late(machine, session, effect, done=done)
    machine.run(session)
    assert (effect.state, attempt.state, session.state) == (
        "completed" if done else "rejected", "selected", "completed",
    )  # fmt: skip
    assert told(session)["settles"] is True


def test_a_late_outcome_takes_the_place_of_an_admitted_lookup(machine: Machine) -> None:
    def meanwhile(inquiry: Any) -> Observation:
        late(machine, session, effect)
        return Observation(Finding.CONFIRMED_REFUSED)

    session, effect = unknown(machine, Downstream(Adapter(meanwhile)))
    with pytest.raises(Conflict, match="newer"):
        look_up(machine, effect)
    effect.refresh_from_db()
    assert effect.state == "completed"
    assert Attempt.objects.get(effect=effect, kind="lookup").state == "superseded"
    conflict = Event.objects.get(session=session, type="tool.effect.reconciliation.conflict").payload
    assert conflict["by"] == "late outcome"


@pytest.mark.parametrize("approved", [False, True], ids=["offered", "authorised again"])
def test_a_late_outcome_takes_a_retry_back(machine: Machine, approved: bool) -> None:
    tool = Downstream(Adapter(BARRED))
    session, effect = unknown(machine, tool)
    look_up(machine, effect)
    if approved:
        machine.decide(machine.approvals(session)[0], "approve")
    attempt = late(machine, session, effect)
    assert (effect.state, attempt.state, attempt.evidence["contradicts"]) == ("manual_review", "superseded", True)
    assert (session.state, session.interruption) == ("interrupted", "effect_outcome_unknown") or approved
    assert Approval.objects.get(session=session).state == "cancelled"
    machine.run(session)
    assert (machine.calls(session)[0].state, tool.count) == ("outcome_unknown", 1)
    assert session.interruption == "effect_outcome_unknown"


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(
    "found, state", [(Finding.CONFIRMED_DONE, "completed"), (Finding.CONFIRMED_REFUSED, "rejected")]
)
def test_a_late_outcome_of_a_settled_effect_is_kept_and_marked(
    machine: Machine, found: Finding, state: str, done: bool
) -> None:
    session, effect = unknown(machine, Downstream(Adapter(found)))
    look_up(machine, effect)
    receipt = machine.effect(session).receipt
    attempt = late(machine, session, effect, done=done)
    contradicts = done != (state == "completed")
    assert (effect.state, attempt.state, attempt.evidence["contradicts"]) == (state, "superseded", contradicts)
    assert told(session)["contradicts"] is contradicts
    assert effect.receipt == receipt


@pytest.mark.parametrize("done", [True, False])
def test_a_late_outcome_beside_a_held_receipt_is_kept_and_the_verifier_decides(machine: Machine, done: bool) -> None:
    def meanwhile(inquiry: Any) -> Verification:
        assert machine.effect(session).state == "receipted"
        said.append(late(machine, session, effect, done=done))
        return Verification(Verdict.PASSED)

    said: list[Attempt] = []
    looks = Looks()
    looks.verify = meanwhile  # type: ignore[method-assign]
    session, effect = unknown(machine, Downstream(Adapter(Finding.CONFIRMED_DONE), verifier=looks))
    look_up(machine, effect)
    (attempt,) = said
    assert (attempt.state, attempt.evidence["effect_was"]) == ("superseded", "receipted")
    assert attempt.evidence["contradicts"] is not done
    machine.run(session)
    assert (machine.effect(session).state, session.state) == ("completed", "completed")


def test_a_late_outcome_of_a_dispatch_that_was_repeated_is_evidence_alone(machine: Machine) -> None:
    tool = Downstream(Adapter(BARRED))
    session, effect = unknown(machine, tool)
    look_up(machine, effect)
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    attempt = late(machine, session, effect)
    assert (effect.state, effect.dispatches, attempt.state, session.state) == (
        "completed", 2, "superseded", "completed",
    )  # fmt: skip
    assert attempt.evidence["contradicts"] is True, "it was proved absent, so it may have happened twice"


@pytest.mark.parametrize("done, contradicts", [(True, True), (False, False)])
def test_a_late_outcome_while_the_second_dispatch_runs_is_evidence_alone(
    machine: Machine, done: bool, contradicts: bool
) -> None:
    tool = Downstream(Adapter(BARRED))
    session, effect = unknown(machine, tool)
    look_up(machine, effect)
    said: list[Attempt] = []

    def second(ctx: Any, args: Any) -> ToolResult:
        assert machine.effect(session).state == "intent_recorded"
        said.append(late(machine, session, effect, done=done))
        return ToolResult("booked")

    tool.does = second
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    (attempt,) = said
    assert (attempt.state, attempt.evidence["effect_was"]) == ("superseded", "intent_recorded")
    assert attempt.evidence["contradicts"] is contradicts
    assert (machine.effect(session).state, session.state, tool.count) == ("completed", "completed", 2)


def test_a_late_outcome_of_a_session_that_was_given_up_settles_the_effect_alone(machine: Machine) -> None:
    session, effect = unknown(machine, Downstream(None))
    give_up(machine, session)
    late(machine, session, effect)
    assert (effect.state, session.state, machine.calls(session)[0].state) == ("completed", "failed", "failed")
    assert uuid.UUID(told(session)["effect"]) == effect.pk
