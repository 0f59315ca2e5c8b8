"""The reviewed-action policy and the recording tool by themselves: how they are built, what they answer."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from django.db import connections

from cayu_review.compare import differing_fields
from cayu_review.policies import ReviewedAction
from cayu_review.tools import RecordProposal
from cayu_runtime import (
    Agent,
    InvalidArguments,
    PolicyDecision,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    Reviewed,
    Tool,
    ToolContext,
    ToolEffect,
    ToolSpec,
    tool,
)
from cayu_runtime.errors import Conflict, InvalidRequest
from cayu_runtime.models import Proposal, Session
from cayu_runtime.policies import Allow, ByTool, Guarded, OneOf, Strictest
from cayu_runtime.services.proposal import record_proposal
from tests import rows
from tests.machine import Machine
from tests.reviewing import FIELDS, SCHEMA, Apply, Operator, System, act, propose, reviewed_with, waiting

pytestmark = pytest.mark.django_db
POLICY = ReviewedAction(("apply_change",), ("record_proposal", "read_*"), four_eyes=False, expires_in=60)


def request(proposal: Proposal, tool: str = "apply_change", /, **changed: Any) -> PolicyRequest:
    values: dict[str, Any] = {
        "tenant": str(proposal.tenant_id),
        "session_id": proposal.session.session_id,
        "agent": "operator",
        "tool": tool,
        "tool_version": "1",
        "effect": ToolEffect.IDEMPOTENT,
        "arguments": dict(FIELDS),
        "requester": "user:alice",
        **changed,
    }
    return PolicyRequest(**values)


def said(policy: Any, asked: PolicyRequest) -> PolicyResult:
    answer = policy.authorize(asked)
    assert isinstance(answer, PolicyResult)
    return answer


def recorded(state: str = "open", **values: Any) -> Proposal:
    return rows.proposal(state, **{"action_id": "change-0001", "tool": "apply_change", "fields": FIELDS, **values})


# ---- what the policy answers ----


@pytest.mark.parametrize("state", ["open", "used"])
def test_a_call_that_equals_its_proposal_waits_for_a_person_and_is_bound(state: str) -> None:
    proposal = recorded(state)
    answer = said(POLICY, request(proposal))
    bound = Reviewed("change-0001", proposal.fields_digest.hex())
    assert answer == PolicyResult(PolicyDecision.REQUIRE_APPROVAL, POLICY.reason, 60, False, bound)


@pytest.mark.parametrize(
    "changed, why",
    [
        ({"arguments": {}}, "names no action_id"),
        ({"arguments": {**FIELDS, "action_id": 7}}, "names no action_id"),
        ({"arguments": {**FIELDS, "action_id": "change-0002"}}, "recorded no proposal 'change-0002'"),
        ({"session_id": "another"}, "This session recorded no proposal"),
        ({"tenant": str(uuid.uuid4())}, "This session recorded no proposal"),
        ({"arguments": {**FIELDS, "more": 1}}, "differs from proposal 'change-0001' in: more"),
        ({"arguments": {"action_id": "change-0001"}}, "in: reason, target"),
    ],
)
def test_any_other_call_is_denied_and_told_why(changed: dict[str, Any], why: str) -> None:
    answer = said(POLICY, request(recorded(), **changed))
    assert (answer.decision, answer.reviewed) == (PolicyDecision.DENY, None)
    assert why in answer.reason


@pytest.mark.parametrize("state", ["withdrawn", "expired"])
def test_a_proposal_that_ended_binds_nothing(state: str) -> None:
    answer = said(POLICY, request(recorded(state)))
    assert answer.decision is PolicyDecision.DENY
    assert answer.reason == f"Proposal 'change-0001' is {state}. Propose under a new action_id."


def test_a_proposal_for_another_tool_binds_nothing() -> None:
    answer = said(POLICY, request(recorded(tool="delete_all")))
    assert "is for delete_all, not for apply_change" in answer.reason


@pytest.mark.parametrize("name, decision", [("record_proposal", "allow"), ("read_it", "allow"), ("pay", "deny")])
def test_other_tools_are_allowed_if_they_are_listed_and_denied_if_not(name: str, decision: str) -> None:
    assert said(POLICY, request(recorded(), name)).decision == decision


@pytest.mark.parametrize(
    "one, other, names",
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": 1}, {"a": "1"}, ["a"]),
        ({"a": None}, {}, ["a"]),
        ({"a": {"x": [1, {"y": 2}]}}, {"a": {"x": [1, {"y": 3}]}}, ["a"]),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, []),
        ({"b": 1}, {"a": 1}, ["a", "b"]),
    ],
)
def test_fields_are_equal_only_as_exact_json(one: Any, other: Any, names: list[str]) -> None:
    assert differing_fields(one, other) == names


@pytest.mark.parametrize(
    "policy",
    [
        ByTool({"apply_change": POLICY}),
        Guarded((OneOf(("apply_change",), "target", ("demo",)),), POLICY),
        Strictest((POLICY, Allow(("apply_change",)))),
        Strictest((Allow(("apply_change",)), POLICY)),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_composition_keeps_the_binding(policy: Any) -> None:
    answer = said(policy, request(recorded()))
    assert answer.decision is PolicyDecision.REQUIRE_APPROVAL
    assert answer.reviewed is not None
    assert answer.reviewed.action_id == "change-0001"


class Slow:
    """An async guard that objects to nothing."""

    identity = PolicyIdentity("slow", "1", {})

    async def check(self, request: PolicyRequest) -> None:
        return None


BESIDE_ASYNC = [
    POLICY,
    Guarded((Slow(),), POLICY),
    Guarded((OneOf(("apply_change",), "target", ("demo",)), Slow()), ByTool({"apply_*": POLICY})),
    Strictest((Guarded((Slow(),), Allow(("apply_change",))), POLICY)),
    Strictest((POLICY, Guarded((Slow(),), Strictest((POLICY, Allow(("*",))))))),
    ByTool({"*": Guarded((Slow(), Slow()), POLICY)}),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("policy", BESIDE_ASYNC, ids=["alone", "guarded", "by_tool", "strictest", "deep", "twice"])
@pytest.mark.parametrize("state, decision", [("open", "require_approval"), ("withdrawn", "deny")])
def test_beside_an_async_part_it_reads_the_same(policy: Any, state: str, decision: str) -> None:
    asked = request(recorded(state))

    async def answer() -> PolicyResult:
        said = policy.authorize(asked)
        return said if isinstance(said, PolicyResult) else await said

    assert said(policy, asked).decision == decision
    assert asyncio.run(answer()) == said(policy, asked)


@pytest.mark.django_db(transaction=True)
def test_behind_an_async_guard_the_machine_still_asks_a_person(machine: Machine) -> None:
    operator = Operator([propose()], [act()], policy=Guarded((Slow(),), reviewed_with()))
    _, approval = waiting(machine, operator)
    assert approval.call.proposal == Proposal.objects.get()


class CountsSessions:
    """An application's own guard, which reads in the thread where it is asked."""

    identity = PolicyIdentity("counts sessions", "1", {})

    def __init__(self) -> None:
        self.used: list[Any] = []

    def check(self, request: PolicyRequest) -> None:
        assert Session.objects.count() == 1
        self.used.append(connections["default"])


@pytest.mark.django_db(transaction=True)
def test_any_part_may_read_beside_an_async_one_and_leaves_no_connection_open() -> None:
    reads, asked = CountsSessions(), request(recorded())
    policy = Guarded((Slow(), reads), Strictest((Allow(("*",)), Guarded((Slow(), reads), Allow(("*",))))))

    async def answer() -> PolicyResult:
        said = policy.authorize(asked)
        return said if isinstance(said, PolicyResult) else await said

    assert said(policy, asked).decision is PolicyDecision.ALLOW
    assert {id(one) for one in reads.used} == {id(connections["default"])}, "a worker asks in its own thread"
    reads.used.clear()
    assert asyncio.run(answer()).decision is PolicyDecision.ALLOW
    other = reads.used[0]
    assert other is not connections["default"]
    if not (other.vendor == "sqlite" and other.is_in_memory_db()):  # which Django keeps for the other threads
        assert other.connection is None


@pytest.mark.parametrize(
    "parameters, why",
    [
        ({"tools": ()}, "tools is empty"),
        ({"tools": "apply_change"}, "tools must be a tuple"),
        ({"tools": ("a b",)}, "is no tool name"),
        ({"tools": ("a",), "allows": ("a",)}, "both reviewed and allowed"),
        ({"tools": ("a",), "allows": "read"}, "allows must be a tuple"),
        ({"tools": ("a",), "expires_in": -1}, "expires_in is -1"),
        ({"tools": ("a",), "four_eyes": "no"}, "four_eyes is True, False or None"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_when_it_is_built(parameters: dict[str, Any], why: str) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        ReviewedAction(**parameters)


def test_its_identity_holds_everything_that_its_answers_depend_on() -> None:
    changed = [
        ReviewedAction(("apply_change",), ("record_proposal",), four_eyes=False, expires_in=60),
        ReviewedAction(("apply_change",), ("record_proposal", "read_*"), four_eyes=True, expires_in=60),
        ReviewedAction(("apply_change",), ("record_proposal", "read_*"), four_eyes=False, expires_in=61),
        ReviewedAction(("other",), ("record_proposal", "read_*"), four_eyes=False, expires_in=60),
    ]
    assert len({policy.identity.digest for policy in (POLICY, *changed)}) == 5


# ---- how the recording tool is built, and what it takes ----


def schema(**changed: Any) -> dict[str, Any]:
    return {**SCHEMA, **changed}


def properties(**changed: Any) -> dict[str, Any]:
    return {**SCHEMA["properties"], **changed}


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"type": "string"}, "must be of type object"),
        (schema(additionalProperties=True), 'set "additionalProperties" to false'),
        (schema(required=["target"]), "action_id must be a required field"),
        (schema(properties=properties(note={"type": "string"})), "'note' is a field or an argument, not both"),
        (schema(properties=properties(target={"type": "string", "x-secret": True})), "'target' is marked secret"),
        (schema(properties=properties(target={"type": "string", "format": "password"})), "'target' is marked secret"),
        (
            schema(properties=properties(target={"type": "object", "properties": {"pin": {"writeOnly": True}}})),
            "'pin' is marked secret",
        ),
    ],
)
def test_a_vocabulary_that_cannot_be_reviewed_is_refused_when_the_tool_is_built(fields: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RecordProposal(Apply(System()), fields)


def test_an_action_with_a_secret_argument_cannot_be_proposed() -> None:
    secret = schema(properties=properties(target={"type": "string", "x-secret": True}))
    action = Tool(ToolSpec("apply_change", "", secret))
    with pytest.raises(ValueError, match="'target' is marked secret"):
        RecordProposal(action, SCHEMA)


def test_what_is_proposed_is_what_the_action_itself_would_get() -> None:
    @tool(effect=ToolEffect.IDEMPOTENT)
    def resize(action_id: str, size: int, note: str = "none") -> str:
        """Resize it."""
        return f"{action_id} {size} {note}"

    effective = RecordProposal(resize).coerce({"action_id": "a-1", "size": "7"})
    assert effective == {"action_id": "a-1", "size": 7, "note": "none"}


def test_fields_of_more_than_8_kib_are_refused_before_anything_runs() -> None:
    wide = schema(properties=properties(target={"type": "string"}))
    recorder = RecordProposal(Tool(ToolSpec("apply_change", "", wide)))
    with pytest.raises(InvalidArguments, match="at most 8192 bytes"):
        recorder.coerce({**FIELDS, "target": "x" * 8200})


def test_the_agent_that_gives_no_capability_is_told_so() -> None:
    recorder = RecordProposal(Apply(System()))
    with pytest.raises(Exception, match="needs the resource 'record_proposal'"):
        recorder.run(ToolContext("s"), dict(FIELDS))


def test_the_policy_covers_what_it_names() -> None:
    action = Apply(System())
    agent = Agent(name="covered", model="x", tools=(RecordProposal(action), action), policy=POLICY)
    assert [POLICY.covers(agent, one) for one in agent.tools] == [True, True]
    assert POLICY.covers(agent, Tool(ToolSpec("pay"))) is False


# ---- what the service takes ----


def recording(**values: Any) -> ToolContext:
    call = rows.call("dispatched", tool="record_proposal", effect_class="idempotent")
    effect = rows.effect("intent_recorded", call=call)
    context = {"tenant": str(call.tenant_id), "dispatch_id": str(effect.dispatch_id), **values}
    return ToolContext(call.session.session_id, **context)


@pytest.mark.parametrize(
    "changed, why",
    [
        ({"action_id": ""}, "action_id must be"),
        ({"action_id": None}, "action_id must be"),
        ({"action_id": "op_1"}, "not with 'op_'"),
        ({"action_id": "OP_1"}, "not with 'op_'"),
        ({"action_id": "a b"}, "action_id must be"),
        ({"action_id": "a\n"}, "action_id must be"),
        ({"action_id": "x" * 201}, "action_id must be"),
        ({"target": "x" * 9000}, "at most 8192"),
        ({"target": 2**53}, "can't be kept exactly"),
        ({"target": float("nan")}, "can't be kept exactly"),
    ],
)
def test_what_cannot_be_recorded_is_refused_with_a_sentence(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        record_proposal(recording(), tool="apply_change", fields={**FIELDS, **changed})
    assert not Proposal.objects.exists()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True])
def test_an_absurd_lifetime_is_refused(seconds: Any) -> None:
    with pytest.raises(InvalidRequest, match="can't be open for"):
        record_proposal(recording(), tool="apply_change", fields=FIELDS, expires_in=seconds)


def test_a_dispatch_that_is_over_records_nothing() -> None:
    for ctx in (recording(dispatch_id=str(uuid.uuid4())), recording(dispatch_id=""), recording(tenant="")):
        with pytest.raises(Conflict, match="Nothing was recorded"):
            record_proposal(ctx, tool="apply_change", fields=FIELDS)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seconds, days", [(None, 7), (10, 10 / 86400), (90 * 86400, 30)])
def test_a_proposal_is_open_for_7_days_unless_told_otherwise_and_never_longer_than_30(
    seconds: float | None, days: float
) -> None:
    proposal = record_proposal(recording(), tool="apply_change", fields=FIELDS, expires_in=seconds).proposal
    assert (proposal.expires_at - proposal.created_at).total_seconds() == pytest.approx(days * 86400)


def test_a_worker_that_lost_the_session_records_nothing() -> None:
    ctx = recording()
    Session.objects.update(fence=2)
    with pytest.raises(Conflict, match="Nothing was recorded"):
        record_proposal(ctx, tool="apply_change", fields=FIELDS)
