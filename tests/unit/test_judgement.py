"""What a policy may answer, and what becomes of an answer that is none: it denies (DESIGN §8; CASES A14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from cayu_runtime import PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, ToolEffect
from cayu_runtime.core.judgement import JudgedCall, action_digests, policy_digest, target_of
from tests.unit.judging import ByHand, Policy, by_hints, judged

ALLOW, DENY, ASK = PolicyDecision.ALLOW, PolicyDecision.DENY, PolicyDecision.REQUIRE_APPROVAL
DAY = 86400.0


def asked(answer: Any, **policy: Any) -> JudgedCall:
    return judged(by_hints, '{"id":7}', policy=Policy(answer, **policy))


@pytest.mark.parametrize("decision", PolicyDecision)
def test_a_policy_decides(decision: PolicyDecision) -> None:
    call = asked(PolicyResult(decision, "because"))
    assert (call.decision, call.reason, call.problem) == (decision, "because", "")
    assert call.policy == PolicyIdentity("mine", "3", {})


@pytest.mark.parametrize("decision", PolicyDecision)
def test_an_async_policy_decides(decision: PolicyDecision) -> None:
    async def later(request: PolicyRequest) -> PolicyResult:
        await asyncio.sleep(0)
        return PolicyResult(decision)

    assert asked(later).decision is decision


@pytest.mark.parametrize(
    "effect, decision, four_eyes",
    [(ToolEffect.NONE, ALLOW, False), (ToolEffect.IDEMPOTENT, ASK, False), (ToolEffect.EXTERNAL, ASK, True)],
)
def test_without_a_policy_the_effect_class_decides(
    effect: ToolEffect, decision: PolicyDecision, four_eyes: bool
) -> None:
    call = judged(ByHand(effect), '{"id":7}')
    assert (call.decision, call.four_eyes, call.expires_in) == (decision, four_eyes, 7 * DAY)


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("effect", ToolEffect)
def test_a_policy_may_say_whether_four_eyes_are_needed(effect: ToolEffect, said: bool) -> None:
    call = judged(ByHand(effect), '{"id":7}', policy=Policy(PolicyResult(ASK, four_eyes=said)))
    assert call.four_eyes is said


def test_a_policy_sees_the_effective_arguments_and_who_asks() -> None:
    seen: list[PolicyRequest] = []

    def look(request: PolicyRequest) -> PolicyResult:
        seen.append(request)
        return PolicyResult(ALLOW)

    asked(look)
    (request,) = seen
    assert request.arguments == {"id": 7, "active": False}
    assert (request.agent, request.tool, request.tool_version, request.effect) == ("a", "by_hints", "1", "external")
    assert (request.session_id, request.requester) == ("s-1", "user:alice")


@pytest.mark.parametrize("key", ["amount", "inner"])
def test_a_policy_cannot_change_the_arguments(key: str) -> None:
    def forge(request: PolicyRequest) -> PolicyResult:
        where: Any = request.arguments if key == "amount" else request.arguments["inner"]
        where["amount"] = 1
        return PolicyResult(ALLOW)

    sent = {"amount": 500, "inner": {"amount": 500}}
    assert judged(ByHand(schema={"type": "object"}), sent, policy=Policy(forge)).arguments == sent


def fails(error: BaseException) -> Callable[[PolicyRequest], PolicyResult]:
    def fail(request: PolicyRequest) -> PolicyResult:
        raise error

    return fail


def fails_later(error: BaseException) -> Callable[[PolicyRequest], Any]:
    async def fail(request: PolicyRequest) -> PolicyResult:
        await asyncio.sleep(0)
        raise error

    return fail


@pytest.mark.parametrize("how", [fails, fails_later])
@pytest.mark.parametrize(
    "error", [ValueError("secret"), RecursionError(), MemoryError(), SystemExit(3), asyncio.CancelledError()], ids=repr
)
def test_a_policy_that_raises_denies(how: Any, error: BaseException) -> None:
    call = asked(how(error))
    assert call.decision is DENY
    assert call.reason == f"The policy failed ({type(error).__name__}); a failed policy denies."
    assert call.policy.name == "Policy"


@pytest.mark.parametrize(
    "nonsense",
    [
        None, True, 1, "allow", ALLOW, {"decision": "allow"}, PolicyResult, [],
        PolicyResult("allow"), PolicyResult(None), PolicyResult(True),  # type: ignore[arg-type]
        PolicyResult(ALLOW, None), PolicyResult(ALLOW, 7), PolicyResult(ALLOW, four_eyes="no"),  # type: ignore[arg-type]
        PolicyResult(ASK, four_eyes=0),  # type: ignore[arg-type]
    ],
    ids=str,
)  # fmt: skip
def test_nonsense_denies(nonsense: Any) -> None:
    call = asked(lambda request: nonsense)
    assert call.decision is DENY
    assert call.reason.endswith("denies.")


@pytest.mark.parametrize(
    "identity",
    [None, "mine", ("mine", "1", {}), PolicyIdentity(None, "1", {}), PolicyIdentity("mine", 1, {}), KeyError("no")],  # type: ignore[arg-type]
    ids=str,
)
def test_a_policy_without_a_usable_identity_denies(identity: Any) -> None:
    """An approval is bound to it."""
    call = asked(PolicyResult(ALLOW), identity=identity)
    assert call.decision is DENY
    assert policy_digest(call.policy)


# ---- the deadline (A14): a malformed, naive or absurd one is refused or capped, never "no limit" ----


@pytest.mark.parametrize(
    "expires_in",
    [
        0, 0.0, -0.0, -1, -1e9, 1e-9, 5e-324, float("nan"), float("inf"), float("-inf"), "soon", "60", "", True, False,
        b"60", [60], {}, Decimal(60), timedelta(days=1), datetime(2026, 1, 1), object(), 60j,  # noqa: DTZ001
        pytest.param(10**400, id="10**400"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("decision", [ALLOW, ASK])
def test_a_deadline_that_is_none_denies(decision: PolicyDecision, expires_in: Any) -> None:
    call = asked(PolicyResult(decision, expires_in=expires_in))
    assert call.decision is DENY
    assert call.reason.endswith("denies.")


@pytest.mark.parametrize(
    "expires_in, seconds",
    [
        (None, 7 * DAY),
        (1, 1.0),
        (0.5, 0.5),
        (3600, 3600.0),
        (30 * DAY, 30 * DAY),
        (30 * DAY + 1, 30 * DAY),
        (1e300, 30 * DAY),
        (10**18, 30 * DAY),
    ],
)
def test_a_deadline_is_seven_days_if_not_said_and_thirty_at_most(expires_in: Any, seconds: float) -> None:
    call = asked(PolicyResult(ASK, expires_in=expires_in))
    assert (call.decision, call.expires_in) == (ASK, seconds)
    assert timedelta(seconds=call.expires_in) > timedelta(0)


# ---- what an approval is bound to ----


def test_the_digest_of_a_policy_covers_name_version_and_parameters() -> None:
    same = policy_digest(PolicyIdentity("mine", "1", {"a": 1, "b": [2]}))
    assert same == policy_digest(PolicyIdentity("mine", "1", {"b": (2,), "a": 1}))
    others = [
        PolicyIdentity("yours", "1", {"a": 1, "b": [2]}),
        PolicyIdentity("mine", "2", {"a": 1, "b": [2]}),
        PolicyIdentity("mine", "1", {"a": 1, "b": [3]}),
        PolicyIdentity("mine", "1", {}),
    ]
    assert len({same, *map(policy_digest, others)}) == 5


def test_the_intent_covers_everything_that_is_agreed_to_and_the_action_what_is_done() -> None:
    base: dict[str, Any] = {
        "tenant": "t1", "tool": "refund", "version": "1", "effect": "external", "arguments": {"n": 1}, "target": "x",
        "operation": "op1",
    }  # fmt: skip
    action, intent = action_digests(**base)
    assert action != intent
    for name, value in {
        "tenant": "t2", "tool": "pay", "version": "2", "effect": "idempotent", "arguments": {"n": 2}, "target": "y",
    }.items():  # fmt: skip
        other_action, other_intent = action_digests(**{**base, name: value})
        assert (other_action != action) == (name != "version"), name
        assert other_intent != intent, name
    worded = action_digests(**{**base, "arguments": {"n": 1, "why": "late"}}, identity={"n": 1})
    assert worded[0] == action
    assert worded[1] != intent
    same_action, other_intent = action_digests(**{**base, "operation": "op2"})
    assert same_action == action
    assert other_intent != intent


@pytest.mark.parametrize(
    "target, arguments, shown",
    [
        ("", {"id": 7}, ""),
        ("id", {"id": 7}, "7"),
        ("id", {"id": "order 1042"}, "order 1042"),
        ("id", {"id": ["a"]}, "['a']"),
        ("id", {}, ""),
        ("other", {"id": 7}, ""),
        ("id", {"id": "a\0b\ud800"}, "a\\u0000b\\ud800"),
    ],
)
def test_the_target_is_the_value_of_the_tools_target_argument(target: str, arguments: Any, shown: str) -> None:
    assert target_of(ByHand(target=target), arguments) == shown


def test_a_long_target_is_cut_to_what_the_column_holds() -> None:
    assert len(target_of(ByHand(target="id"), {"id": "x" * 10_000})) <= 200
