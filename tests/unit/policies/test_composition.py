"""Compositions never widen what a part allows, and a part that fails denies (DESIGN §8; CASES A14)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cayu_runtime import PolicyDecision, PolicyRequest, PolicyResult
from cayu_runtime.policies import Allow, ByEnvironment, ByTool, Deny, Guarded, RequireApproval, Strictest
from tests.unit.judging import by_hints, judged
from tests.unit.policies.asked import ALLOW, ASK, DENY, Part, answer_of, later, never, raises, request

ORDER = {ALLOW: 0, ASK: 1, DENY: 2}
WEEK = 7 * 86400.0
OK = PolicyResult(ALLOW)
NO = PolicyResult(DENY, "no")

answers = st.builds(
    PolicyResult,
    st.sampled_from(PolicyDecision),
    st.text(max_size=5),
    st.none() | st.floats(0.001, 30 * 86400),
    st.none() | st.booleans(),
)
nonsense = st.sampled_from(
    [True, 1, "allow", ALLOW, {}, [], PolicyResult, PolicyResult("allow"), PolicyResult(ALLOW, None)]  # type: ignore[arg-type]
)
behaviour = answers | nonsense | st.just(raises)
parts = st.builds(lambda says, slow: Part(later(says) if slow else says), behaviour, st.booleans())


def alone(part: Part) -> PolicyResult:
    """What a part says if it is the only rule: a part that fails denies."""
    return answer_of(ByTool({"*": part}))


def eyes(answer: PolicyResult) -> int:
    return {False: 0, None: 1, True: 2}[answer.four_eyes]


@settings(max_examples=200)
@given(st.lists(parts | st.just(Part(None)), min_size=1, max_size=4), parts)
def test_guards_never_widen(guards: list[Part], then: Part) -> None:
    answer = answer_of(Guarded(tuple(guards), then))
    inner = alone(then)
    assert answer == inner or answer.decision is DENY
    silent = all(guard.says is None for guard in guards)
    assert answer == inner if silent else answer.decision is DENY


@settings(max_examples=200)
@given(st.lists(parts, min_size=2, max_size=4))
def test_the_strictest_is_as_strict_as_each(policies: list[Part]) -> None:
    answer = answer_of(Strictest(tuple(policies)))
    said = [alone(part) for part in policies]
    assert ORDER[answer.decision] == max(ORDER[one.decision] for one in said)
    if answer.decision is ASK:
        asking = [one for one in said if one.decision is ASK]
        assert (answer.expires_in or WEEK) <= min(one.expires_in or WEEK for one in asking)
        assert eyes(answer) == max(map(eyes, asking))


@given(st.lists(parts, min_size=2, max_size=3), st.permutations(range(2)))
def test_the_order_of_policies_changes_no_decision(policies: list[Part], order: list[int]) -> None:
    shuffled = [policies[n] for n in order] + policies[2:]
    one, other = answer_of(Strictest(tuple(policies))), answer_of(Strictest(tuple(shuffled)))
    assert (one.decision, one.expires_in, one.four_eyes) == (other.decision, other.expires_in, other.four_eyes) or (
        one.decision is other.decision is not ASK
    )


# ---- what a guard may not do ----


@pytest.mark.parametrize("how", [lambda says: says, later], ids=["sync", "async"])
@pytest.mark.parametrize(
    "says",
    [
        OK, PolicyResult(ASK), raises, True, False, 0, "", "deny", DENY, [], {}, PolicyResult("deny"),  # type: ignore[arg-type]
        PolicyResult(DENY, None), PolicyResult,  # type: ignore[arg-type]
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_guard_that_says_anything_but_nothing_denies(says: Any, how: Any) -> None:
    then = Part(OK)
    answer = answer_of(Guarded((Part(how(says) if callable(says) or how is later else says),), then))
    assert (answer.decision, then.seen) == (DENY, [])
    assert answer.reason
    assert "a secret" not in answer.reason


@pytest.mark.parametrize("how", [lambda says: says, later], ids=["sync", "async"])
def test_the_first_objection_ends_it(how: Any) -> None:
    first, second, then = Part(how(NO)), Part(None), Part(OK)
    assert answer_of(Guarded((Part(how(None)), first, second), then)) == NO
    assert (len(first.seen), second.seen, then.seen) == (1, [], [])


@pytest.mark.parametrize("how", [lambda says: says, later], ids=["sync", "async"])
def test_a_guard_changes_the_request_for_nobody(how: Any) -> None:
    def forge(asked: PolicyRequest) -> None:
        object.__setattr__(asked, "tool", "look")
        asked.arguments["amount"] = 1  # type: ignore[index]
        asked.arguments["inner"]["list"].append(1)

    def allow_small(asked: PolicyRequest) -> PolicyResult:
        return OK if asked.arguments.get("amount") == 1 or asked.tool == "look" else NO

    asked = request(arguments={"amount": 500, "inner": {"list": []}})
    policy = Guarded((Part(how(forge)), Part(how(forge))), Strictest((Part(how(allow_small)), Part(how(allow_small)))))
    assert answer_of(policy, asked) == NO
    assert asked == request(arguments={"amount": 500, "inner": {"list": []}})


@pytest.mark.parametrize(
    "policy",
    [
        Guarded((Part(never),), Part(OK), seconds=0.01),
        Guarded((Part(None),), Part(never), seconds=0.01),
        Strictest((Part(OK), Part(never)), seconds=0.01),
        ByTool({"*": Part(never)}, seconds=0.01),
        ByEnvironment({"here": Part(never)}, seconds=0.01),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_part_that_never_ends_denies(policy: Any) -> None:
    answer = answer_of(policy, request(environment="here"))
    assert answer.decision is DENY
    assert "TimeoutError" in answer.reason


# ---- a time limit that is none (A14): a composition hides it no more than the machine does ----


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), "60", True, [], 10**400])
@pytest.mark.parametrize("decision", [ALLOW, ASK])
def test_a_malformed_time_limit_denies(decision: PolicyDecision, limit: Any) -> None:
    bad, good = Part(PolicyResult(decision, expires_in=limit)), Part(PolicyResult(ASK, expires_in=60))
    for policy in (Strictest((good, bad)), Strictest((bad, good)), ByTool({"*": bad}), Guarded((Part(None),), bad)):
        assert answer_of(policy).decision is DENY


def test_of_several_limits_the_shortest_holds() -> None:
    def limit(*limits: float | None) -> float | None:
        return answer_of(Strictest(tuple(Part(PolicyResult(ASK, expires_in=one)) for one in limits))).expires_in

    assert [limit(None, None), limit(60, None), limit(None, 8 * 86400), limit(90, 60)] == [None, 60, WEEK, 60]


# ---- under the machine ----


@pytest.mark.parametrize("how", [lambda says: says, later], ids=["sync", "async"])
def test_the_machine_takes_a_composition_like_any_policy(how: Any) -> None:
    policy = ByTool({"by_hints": Guarded((Part(how(None)),), RequireApproval(("by_hints",), 60, reason="Look."))})
    call = judged(by_hints, '{"id":7}', policy=policy)
    assert (call.decision, call.reason, call.expires_in, call.four_eyes) == (ASK, "Look.", 60, True)


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), RecursionError()], ids=repr)
@pytest.mark.parametrize("how", [lambda says: says, later], ids=["sync", "async"])
def test_whatever_a_guard_raises_the_machine_denies(how: Any, error: BaseException) -> None:
    def fail(asked: PolicyRequest) -> Any:
        raise error

    call = judged(by_hints, '{"id":7}', policy=Guarded((Part(how(fail)),), Allow(("*",))))
    assert call.decision is DENY


def test_a_denial_stays_one_however_deep_it_stands() -> None:
    policy: Any = Deny("Never.")
    for _ in range(20):
        policy = Guarded((Part(None),), Strictest((Allow(("*",)), ByTool({"*": policy}))))
    assert answer_of(policy) == PolicyResult(DENY, "Never.")
