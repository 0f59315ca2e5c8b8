"""The same action again: a denial answers for it, an uncertain one holds it (DESIGN §5; CASES A19, C12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from cayu_runtime import Call, ToolContext, ToolEffect, ToolResult
from cayu_runtime.core import canonical, clock, execution
from cayu_runtime.core.results import user_message
from cayu_runtime.core.routing import add_message
from cayu_runtime.core.transitions import transition
from cayu_runtime.errors import Conflict, HeldAction
from cayu_runtime.models import Approval, EffectRecord, Session, ToolCall
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)
ASK = Gate(move_money="require_approval")
PAY = Call("move_money", {"to": "x"})


def lose_answer(ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
    raise ConnectionError("no answer")


def uncertain(machine: Machine, effect: ToolEffect = ToolEffect.EXTERNAL) -> tuple[Session, EffectRecord]:
    """A session whose action is unknown, and its effect."""
    session = machine.start(agent_of(Counter(effect=effect, does=lose_answer), policy=Gate()))
    found = machine.effect(session)
    assert found.state == "outcome_unknown"
    return session, found


# ---- denied before ----


def test_a_denied_action_asked_again_five_times_is_one_prompt(machine: Machine) -> None:  # A19
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK, rounds=[[PAY]] * 6))
    machine.decide(machine.approvals(session)[0], "deny", reason="Not this month.")
    machine.run(session)
    calls = machine.calls(session)
    assert [(c.state, c.reason) for c in calls] == [("denied", ""), *[("blocked", "denied_before")] * 5]
    assert (session.state, tool.count, Approval.objects.filter(session=session).count()) == ("completed", 0, 1)
    for call in calls[1:]:
        assert call.result is not None
        assert call.result["executed"] is False
        assert "Not this month." in call.result["reason"]
    assert machine.events(session).count("tool.call.blocked") == 5


def test_another_action_is_asked_about_after_a_denial(machine: Machine) -> None:
    session = machine.start(agent_of(Counter(), policy=ASK, rounds=[[PAY], [Call("move_money", {"to": "y"})]]))
    machine.decide(machine.approvals(session)[0], "deny")
    machine.run(session)
    assert machine.approvals(session)[0].target == "y"


def test_after_the_persons_next_message_it_is_asked_again(machine: Machine) -> None:
    session = machine.start(agent_of(Counter(), policy=ASK, rounds=[[PAY], [PAY]]))
    machine.decide(machine.approvals(session)[0], "deny")
    with transition(session.pk) as change:  # what a message of the person's does to the transcript
        add_message(change, "user", user_message("Ask again.", change.now))
    machine.run(session)
    assert len(machine.approvals(session)) == 1


def test_a_denial_in_another_session_answers_for_nobody_else(machine: Machine) -> None:
    first = machine.start(agent_of(Counter(), policy=ASK))
    machine.decide(machine.approvals(first)[0], "deny")
    second = machine.start(agent_of(Counter(), policy=ASK))
    assert len(machine.approvals(second)) == 1


# ---- an equal action is uncertain ----


def test_an_equal_external_action_is_held_and_can_not_be_approved(machine: Machine) -> None:  # C12
    _, first = uncertain(machine)
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate()))  # its own policy would have allowed it
    (approval,) = machine.approvals(session)
    assert (approval.call.held_by, approval.call.state) == (first, "awaiting_approval")
    with pytest.raises(HeldAction) as held:
        machine.decide(approval, "approve")
    assert held.value.details["held_by"] == str(first.pk)
    approval.refresh_from_db()
    assert (approval.state, tool.count) == ("pending", 0)


def test_a_held_action_can_be_approved_once_the_first_is_settled(machine: Machine) -> None:
    other, first = uncertain(machine)
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate()))
    settle(other, first, "rejected")
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)


def test_one_that_was_given_up_holds_no_more(machine: Machine) -> None:
    _, first = uncertain(machine)
    EffectRecord.objects.filter(pk=first.pk).update(abandoned_at=first.created_at)
    tool = Counter()
    machine.start(agent_of(tool, policy=Gate()))
    assert tool.count == 1


def test_an_action_that_became_uncertain_while_an_equal_one_waited_holds_it_at_the_decision(machine: Machine) -> None:
    session = machine.start(agent_of(Counter(), policy=ASK))
    _, first = uncertain(machine)
    (approval,) = machine.approvals(session)
    with pytest.raises(HeldAction):
        machine.decide(approval, "approve")
    approval.call.refresh_from_db()
    assert approval.call.held_by == first
    assert machine.events(session)[-1] == "tool.call.held"
    machine.decide(approval, "deny")
    machine.run(session)
    assert session.state == "completed"


def test_an_action_that_became_uncertain_after_the_approval_stops_the_dispatch(machine: Machine) -> None:
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK))
    (approval,) = machine.approvals(session)
    machine.decide(approval, "approve")
    uncertain(machine)
    machine.run(session)
    (call,) = machine.calls(session)
    approval.refresh_from_db()
    assert (call.state, call.reason, approval.state, tool.count) == ("blocked", "linked", "void", 0)
    assert machine.effect(session).state == "abandoned"


def test_an_equal_idempotent_action_goes_under_the_key_of_the_uncertain_one(machine: Machine) -> None:
    _, first = uncertain(machine, ToolEffect.IDEMPOTENT)
    tool = Counter(effect=ToolEffect.IDEMPOTENT)
    session = machine.start(agent_of(tool, policy=Gate()))
    second = machine.effect(session)
    assert (second.state, second.linked_to) == ("completed", first)
    assert second.operation_id != first.operation_id
    assert [ctx.idempotency_key for ctx in tool.seen] == [first.idempotency_key]


def test_other_arguments_and_other_tenants_are_not_held(machine: Machine) -> None:
    uncertain(machine)
    tool = Counter()
    machine.start(agent_of(tool, policy=Gate(), rounds=[[Call("move_money", {"to": "y"})]]))
    other, tool_there = Machine(), Counter()
    other.start(agent_of(tool_there, policy=Gate()))
    assert (tool.count, tool_there.count) == (1, 1)


# ---- what makes it the same action ----


class Refund(Counter):
    """Order and amount say what is done; the reason does not."""

    def __init__(self, *, version: str = "1", lost: bool = False) -> None:
        super().__init__("refund", does=lose_answer if lost else None, version=version)
        self.spec = replace(self.spec, identified_by=("order",))


def refund(reason: str, order: str = "7") -> list[list[Call]]:
    return [[Call("refund", {"order": order, "reason": reason})]]


@pytest.mark.parametrize("version", ["1", "2"])
def test_another_wording_or_version_is_the_same_action(machine: Machine, version: str) -> None:  # C12
    machine.start(agent_of(Refund(lost=True), policy=Gate(), rounds=refund("late")))
    again, other = Refund(version=version), Refund(version=version)
    session = machine.start(agent_of(again, policy=Gate(), rounds=refund("it came late")))
    machine.start(agent_of(other, policy=Gate(), rounds=refund("late", order="8")))
    assert (again.count, other.count) == (0, 1)
    assert machine.approvals(session)[0].call.held_by is not None


def test_another_wording_of_what_was_denied_is_not_asked_again(machine: Machine) -> None:  # A19
    tool = Refund()
    rounds = [*refund("late"), *refund("please"), *refund("really")]
    session = machine.start(agent_of(tool, policy=Gate(refund="require_approval"), rounds=rounds))
    machine.decide(machine.approvals(session)[0], "deny")
    machine.run(session)
    assert [call.reason for call in machine.calls(session)] == ["", "denied_before", "denied_before"]
    assert session.state == "completed"


@pytest.mark.parametrize("first", ["approve", "deny"])
def test_what_is_denied_does_not_run_under_its_twin_of_the_round(machine: Machine, first: str) -> None:
    tool = Counter()
    session = machine.start(agent_of(tool, policy=ASK, rounds=[[PAY, PAY]]))
    one, two = machine.approvals(session)
    if first == "approve":
        machine.decide(two, "approve", machine.carol)
    machine.decide(one, "deny", reason="fraud")
    if first == "deny":
        with pytest.raises(Conflict):
            machine.decide(two, "approve", machine.carol)
    machine.run(session)
    assert [(c.state, c.reason) for c in machine.calls(session)] == [("denied", ""), ("blocked", "denied_before")]
    assert (tool.count, session.state) == (0, "completed")


# ---- an equal action that is under way ----


def begun(machine: Machine, tool: Counter) -> Session:
    """A session whose worker was lost after its intent was recorded: nobody has taken it over yet."""
    session = machine.start(agent_of(tool, policy=Gate()), run=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "perform", dies)
        with pytest.raises(Dies):
            machine.run(session)
    session.refresh_from_db()
    assert machine.effect(session).state == "intent_recorded"
    return session


class Dies(BaseException):
    """The process ends here."""


def dies(*args: object) -> None:
    raise Dies


def lease_ends(session: Session) -> None:
    with transition(session.pk) as change:
        change.set(lease_until=change.now)


def test_what_a_dead_worker_had_begun_holds_an_equal_action(machine: Machine) -> None:  # C12
    lease_ends(begun(machine, Counter()))
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate()))
    assert machine.approvals(session)[0].call.held_by is not None
    assert tool.count == 0


def test_what_a_living_worker_does_is_waited_for(machine: Machine) -> None:
    first = begun(machine, Counter())
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate()))
    (call,) = machine.calls(session)
    assert (session.state, call.state, call.reason, tool.count) == ("pending", "prepared", "equal_in_flight", 0)
    lease_ends(first)
    machine.run(first, "worker-2")
    assert machine.effect(first).state == "outcome_unknown"
    with clock.shifted(timedelta(seconds=6)):
        machine.run(session)
    call.refresh_from_db()
    assert (call.state, call.reason, tool.count) == ("blocked", "linked", 0)


def test_after_it_ended_well_the_next_goes_on(machine: Machine) -> None:
    first = begun(machine, Counter())
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate()))
    lease_ends(first)
    machine.run(first, "worker-2")
    settle(first, machine.effect(first), "rejected")
    with clock.shifted(timedelta(seconds=6)):
        machine.run(session)
    assert (session.state, tool.count) == ("completed", 1)


def test_reading_calls_ask_nothing_about_repetition(machine: Machine) -> None:
    asked = statements_of(lambda: machine.start(agent_of(Counter("look", ToolEffect.NONE), policy=Gate())))
    assert asked
    assert not [sql for sql, _ in asked if "action_digest IN" in sql]


def test_the_question_is_answered_by_an_index(machine: Machine) -> None:
    """It is asked before each dispatch, of all effects that the tenant ever had."""
    asked = statements_of(lambda: machine.start(agent_of(Counter(), policy=Gate())))
    questions = [(sql, values) for sql, values in asked if "action_digest IN" in sql]
    assert len(questions) == 2, "when it is recorded, and before its dispatch"
    postgres = connection.vendor == "postgresql"
    for sql, values in questions:
        with transaction.atomic(), connection.cursor() as cursor:
            if postgres:
                cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(("EXPLAIN " if postgres else "EXPLAIN QUERY PLAN ") + sql, values)
            plan = str(cursor.fetchall())
        assert "effect_open_action" in plan or "effect_uncertain" in plan, plan


def statements_of(work: Callable[[], object]) -> list[tuple[str, Any]]:
    asked: list[tuple[str, Any]] = []

    def heard(run: Any, sql: str, values: Any, *rest: Any) -> Any:
        asked.append((sql, values))
        return run(sql, values, *rest)

    with connection.execute_wrapper(heard):
        work()
    return asked


def settle(session: Session, effect: EffectRecord, state: str) -> None:
    """What evidence does to an unknown effect and its call."""
    with transition(session.pk) as change:
        call = ToolCall.objects.get(pk=effect.call_id)
        change.move(call, "failed", result={"status": "failed"})
        receipt = {"outcome": state}
        digest = canonical.digest(receipt)
        change.move(EffectRecord.objects.get(pk=effect.pk), state, receipt=receipt, receipt_digest=digest)
