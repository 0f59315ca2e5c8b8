"""Whatever becomes of the calls of a round, the model is told of each exactly once, in its own order (CASES B9)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as how_many
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from cayu_runtime import Call, PolicyResult, ToolContext, ToolEffect, ToolResult
from cayu_runtime.core import clock, decisions
from cayu_runtime.models import Approval, Session
from cayu_runtime.services.approval import revoke_approval
from cayu_runtime.services.session import interrupt_session
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)

# How a call fares, and the state that it ends in.
ENDS = {
    "read": "completed",
    "read fails": "failed",
    "invalid": "blocked",
    "forbidden": "blocked",
    "act": "completed",
    "act refused": "failed",
    "lost": "outcome_unknown",
    "approve": "completed",
    "approve, refused": "failed",
    "approve, lost": "outcome_unknown",
    "deny": "denied",
    "expire": "expired",
    "revoke": "denied",
}
GATED = tuple(end for end in ENDS if end.split(",")[0] in ("approve", "deny", "expire", "revoke"))


def behave(ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
    end = args["end"]
    if "lost" in end:
        raise ConnectionError("no answer")
    return ToolResult("said", is_error="refused" in end or "fails" in end)


class Ends(Gate):
    """Judges a call by how it is to end."""

    def authorize(self, request: Any) -> PolicyResult:
        answer = "require_approval" if request.arguments["end"] in GATED else "allow"
        self.answers = {request.tool: "deny" if request.arguments["end"] == "forbidden" else answer}
        return super().authorize(request)


def calls_of(ends: list[str]) -> list[Call]:
    made = []
    for number, end in enumerate(ends):
        tool = "look" if end.startswith("read") else "move_money"
        arguments = {"end": end, "to": str(number)} if end != "invalid" else {"end": end, "to": 7}
        made.append(Call(tool, arguments, call_id=f"call-{number}"))
    return made


def told(machine: Machine, session: Session) -> Iterator[tuple[list[str], list[str] | None]]:
    """For each model message with calls: their ids, and those of the results that follow it (None: not yet)."""
    bodies = machine.transcript(session)
    for place, body in enumerate(bodies):
        asked = [p["tool_call_id"] for p in body["parts"] if p["part_kind"] == "tool-call"]
        if asked:
            after = bodies[place + 1]["parts"] if place + 1 < len(bodies) else None
            yield asked, None if after is None else [p["tool_call_id"] for p in after]


def decide_all(machine: Machine, session: Session, ends: list[str]) -> None:
    """The answers of people, in the order of the calls; what is revoked is approved first."""
    for number, approval in waiting(machine, session):
        if ends[number] != "expire":
            machine.decide(approval, "deny" if ends[number] == "deny" else "approve")
        if ends[number] == "revoke":
            digest = bytes(approval.intent_digest).hex()
            revoke_approval(machine.tenant, machine.carol, approval.pk, version=1, digest=digest, reason="no")


def let_time_pass(machine: Machine, session: Session) -> None:
    """Later than any deadline: what nobody decided expires, and the session goes on."""
    with clock.shifted(timedelta(days=8)):
        for _, approval in waiting(machine, session):
            assert decisions.expire(session.pk, approval.pk)
        machine.run(session)


def waiting(machine: Machine, session: Session) -> list[tuple[int, Approval]]:
    return [(int(a.call.call_id.removeprefix("call-")), a) for a in machine.approvals(session)]


@pytest.fixture
def everybody(settings: Settings) -> None:
    settings.CAYU_AUTHORITY = "tests.machine.Everybody"


@given(st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=5), st.booleans())
@how_many(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_call_of_any_mix_has_one_result(everybody: None, ends: list[str], stop: bool) -> None:
    machine = Machine()  # of each example its own: an uncertain action holds equal ones of its tenant
    look = Counter("look", ToolEffect.NONE, does=behave)
    act = Counter(does=behave)
    session = machine.start(agent_of(look, act, policy=Ends(), rounds=[calls_of(ends)]))
    if stop and session.state == "interrupted" and machine.approvals(session):
        interrupt_session(machine.tenant, machine.bob, session.session_id)
        expected = ["cancelled" if end in GATED else ENDS[end] for end in ends]
        expected = ["failed" if state in ("completed", "outcome_unknown") else state for state in expected]
    else:
        decide_all(machine, session, ends)
        machine.run(session)
        let_time_pass(machine, session)
        expected = [ENDS[end] for end in ends]
        if "expire" in ends:  # the round waited for that one until the time of the approved ones was over, too
            expected = [
                "expired" if end.startswith("approve") else state for end, state in zip(ends, expected, strict=True)
            ]
        if "outcome_unknown" in expected:  # what stands behind it waits for evidence
            first = expected.index("outcome_unknown")
            runs = ("completed", "failed", "outcome_unknown")
            waits = [state in runs or end.startswith("approve") for end, state in zip(ends, expected, strict=True)]
            expected[first + 1 :] = [
                "prepared" if waits[number] else state for number, state in enumerate(expected) if number > first
            ]
    session.refresh_from_db()
    found = [call.state for call in machine.calls(session)]
    assert found == expected
    ((asked, results),) = told(machine, session)
    assert asked == [call.call_id for call in machine.calls(session)]
    if {"outcome_unknown", "prepared"} & set(found):
        assert results is None, "the model is told nothing while a call is open"
    else:
        assert results == asked
    assert not Approval.objects.filter(session=session, state__in=("pending", "approved")).exists() or results is None
