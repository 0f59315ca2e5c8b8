"""The same action again: a denial answers for it, an uncertain one holds it (DESIGN §5; CASES A19, C12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from cayu_runtime import Call, ToolContext, ToolEffect, ToolResult
from cayu_runtime.core import canonical
from cayu_runtime.core.results import user_message
from cayu_runtime.core.routing import add_message
from cayu_runtime.core.transitions import transition
from cayu_runtime.errors import HeldAction
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
