"""What is built wrongly is refused with a sentence, and the identity covers every parameter and every part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from typing import Any

import pytest

from cayu_runtime import Agreement, PolicyIdentity, Stage
from cayu_runtime.core.judgement import policy_digest
from cayu_runtime.policies import (
    Allow,
    ByEnvironment,
    ByTool,
    Deny,
    DenyTools,
    Guarded,
    OneOf,
    OnlyFor,
    Pattern,
    Range,
    RequireApproval,
    Required,
    Strictest,
)
from tests.unit.policies.asked import Part

MINE = Part(None, PolicyIdentity("mine", "1", {"limit": 5}))
OTHER = Part(None, PolicyIdentity("mine", "1", {"limit": 6}))
T = ("refund",)

# Each policy with parameters that are right, and for each parameter another that is right too.
SOUND: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (Allow, {"tools": T}, {"tools": ("pay",), "reason": "x", "version": "2"}),
    (Deny, {}, {"reason": "x", "version": "2"}),
    (DenyTools, {"tools": T}, {"tools": ("refund", "pay"), "reason": "x", "version": "2"}),
    (
        RequireApproval,
        {"tools": T},
        {
            "tools": ("refund*",),
            "expires_in": 60,
            "four_eyes": True,
            "editable": True,
            "reason": "x",
            "version": "2",
            "agreement": Agreement((Stage(2),)),
            "mandatory": True,
        },
    ),
    (Required, {"tools": T, "arguments": ("a",)}, {"tools": ("pay",), "arguments": ("b",), "version": "2"}),
    (
        OneOf,
        {"tools": T, "argument": "a", "values": (1,)},
        {"tools": ("pay",), "argument": "b", "values": (True,), "optional": True, "version": "2"},
    ),
    (
        Range,
        {"tools": T, "argument": "a", "least": 1, "most": 5},
        {"tools": ("pay",), "argument": "b", "least": 2, "most": 6, "optional": True, "version": "2"},
    ),
    (
        Pattern,
        {"tools": T, "argument": "a", "pattern": "a"},
        {"tools": ("p",), "argument": "b", "pattern": "b", "max_length": 5, "optional": True, "version": "2"},
    ),
    (
        OnlyFor,
        {"tools": T, "agents": ("a",)},
        {"tools": ("p",), "agents": ("b",), "versions": ("1",), "environments": ("e",), "reason": "x", "version": "2"},
    ),
    (ByEnvironment, {"rules": {"e": MINE}}, {"rules": {"e": OTHER}, "seconds": 5.0, "version": "2"}),
    (ByTool, {"rules": {"a": MINE}}, {"rules": {"a": OTHER}, "otherwise": MINE, "seconds": 5.0, "version": "2"}),
    (
        Guarded,
        {"guards": (MINE,), "then": MINE},
        {"guards": (OTHER,), "then": OTHER, "seconds": 5.0, "version": "2"},
    ),
    (Strictest, {"policies": (MINE, MINE)}, {"policies": (MINE, OTHER), "seconds": 5.0, "version": "2"}),
]


@pytest.mark.parametrize("kind, right, others", SOUND, ids=lambda value: getattr(value, "__name__", ""))
def test_any_changed_parameter_changes_the_digest(kind: Any, right: Any, others: Any) -> None:
    assert set(others) == {field.name for field in fields(kind) if field.init}, "every parameter is tried"
    seen = {policy_digest(kind(**right).identity)}
    assert seen == {policy_digest(kind(**right).identity)}, "the same parameters have one digest"
    for name, value in others.items():
        seen.add(policy_digest(kind(**{**right, name: value}).identity))
    assert len(seen) == len(others) + 1


def test_no_two_kinds_have_one_identity() -> None:
    assert len({kind(**right).identity.name for kind, right, _ in SOUND}) == len(SOUND)


def test_the_order_of_rules_is_part_of_the_identity() -> None:
    one, other = ByTool({"a": MINE, "b": OTHER}), ByTool({"b": OTHER, "a": MINE})
    assert one.identity.digest != other.identity.digest


@pytest.mark.parametrize("depth", [1, 5, 10])
def test_a_guards_change_shows_at_any_depth(depth: int) -> None:
    def nested(guard: Part) -> bytes:
        policy: Any = Guarded((guard,), Deny())
        for _ in range(depth):
            policy = Guarded((MINE,), Strictest((Deny(), ByTool({"*": ByEnvironment({"e": policy})}))))
        return policy_digest(policy.identity)

    assert nested(MINE) == nested(Part(None, PolicyIdentity("mine", "1", {"limit": 5})))
    assert nested(MINE) != nested(OTHER)


def test_a_long_list_counts_to_its_end() -> None:
    values = tuple(f"{n:05}" for n in range(10_000))
    one, other = (OneOf(T, "a", (*values[:-1], last)) for last in ("x", "y"))
    assert policy_digest(one.identity) != policy_digest(other.identity)


def test_a_decimal_and_a_number_are_two_parameters_and_equal_decimals_one() -> None:
    assert Range(T, "a", 5).identity.digest != Range(T, "a", Decimal(5)).identity.digest
    assert Range(T, "a", Decimal("5.0")).identity.digest == Range(T, "a", Decimal(5)).identity.digest


# ---- built wrongly ----


def rejects(build: Callable[[], Any], error: type[Exception], *words: str) -> None:
    with pytest.raises(error) as refused:
        build()
    sentence = str(refused.value)
    assert sentence.endswith((".", ")."))
    assert all(word in sentence for word in words), sentence


with_tools = [(kind, right) for kind, right, _ in SOUND if "tools" in right]


@pytest.mark.parametrize("kind, right", with_tools, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("name", ["", "re fund", "refund?", "*fund", "re*nd", "**", "x" * 65, "é", "refund\n", None, 7])
def test_what_is_no_tool_name_is_refused(kind: Any, right: Any, name: Any) -> None:
    rejects(lambda: kind(**{**right, "tools": ("refund", name)}), ValueError, kind.__name__, "no tool name", "'*'")


@pytest.mark.parametrize("kind, right", with_tools, ids=lambda value: getattr(value, "__name__", ""))
def test_no_tools_are_refused_and_a_text_is_no_list(kind: Any, right: Any) -> None:
    rejects(lambda: kind(**{**right, "tools": ()}), ValueError, "empty")
    for wrong in ("refund", None, {"refund"}, 7):
        rejects(lambda wrong=wrong: kind(**{**right, "tools": wrong}), TypeError, "must be a tuple")  # type: ignore[misc]


@pytest.mark.parametrize("kind, right, others", SOUND, ids=lambda value: getattr(value, "__name__", ""))
def test_texts_are_texts(kind: Any, right: Any, others: Any) -> None:
    for wrong in ("", "x" * 41, None, 1):
        rejects(lambda wrong=wrong: kind(**{**right, "version": wrong}), TypeError, "version")  # type: ignore[misc]
    if "reason" in others:
        for wrong in (None, 7, "x" * 501):
            rejects(lambda wrong=wrong: kind(**{**right, "reason": wrong}), TypeError, "reason")  # type: ignore[misc]


@pytest.mark.parametrize(
    "path", ["", ".", "a.", ".a", "a..b", "*", "*.a", None, 7, ("a",), "a" * 501, ".".join("a" * 17)]
)
def test_what_is_no_path_is_refused(path: Any) -> None:
    for build in (
        lambda: OneOf(T, path, (1,)),
        lambda: Range(T, path, 1),
        lambda: Pattern(T, path, "a"),
        lambda: Required(T, (path,)),
    ):
        rejects(build, ValueError, "no path")


async def decide(request: Any) -> None:
    """An async function: neither a policy nor a guard."""


class NoIdentity:
    def authorize(self, request: Any) -> Any: ...
    def check(self, request: Any) -> Any: ...


class AsyncIdentity(NoIdentity):
    async def identity(self) -> PolicyIdentity:
        return PolicyIdentity("late", "1", {})


PARTS: list[tuple[Any, type[Exception], str]] = [
    (None, TypeError, "must be an object"),
    (decide, TypeError, "must be an object"),
    (lambda request: None, TypeError, "must be an object"),
    (Part, TypeError, "class Part"),
    (NoIdentity(), TypeError, "needs an identity"),
    (AsyncIdentity(), TypeError, "needs an identity"),
    (Part(None, "mine"), TypeError, "needs an identity"),
    (Part(None, PolicyIdentity("mine", 1, {})), TypeError, "needs an identity"),  # type: ignore[arg-type]
    (Part(None, PolicyIdentity("mine", "1", {"a": {1, 2}})), ValueError, "plain JSON"),
    (Part(None, PolicyIdentity("mine", "1", {"a": 2**60})), ValueError, "plain JSON"),
    (Part(None, PolicyIdentity("mine", "1", {"a": float("nan")})), ValueError, "plain JSON"),
]


@pytest.mark.parametrize("part, error, words", PARTS, ids=lambda value: type(value).__name__)
def test_a_part_that_cannot_answer_is_refused(part: Any, error: type[Exception], words: str) -> None:
    rejects(lambda: Guarded((part,), MINE), error, "guards[0]", words)
    rejects(lambda: Guarded((MINE,), part), error, "then", words)
    rejects(lambda: Strictest((MINE, part)), error, "policies[1]", words)
    rejects(lambda: ByTool({"a": part}), error, "rules['a']", words)
    rejects(lambda: ByEnvironment({"a": part}), error, "rules['a']", words)
    if part is not None:
        rejects(lambda: ByTool({"a": MINE}, otherwise=part), error, "otherwise", words)


def test_a_coroutine_is_no_part() -> None:
    rejects(lambda: Guarded((decide(None),), MINE), TypeError, "coroutine")  # type: ignore[arg-type]
    rejects(lambda: Guarded((MINE,), decide(None)), TypeError, "coroutine")  # type: ignore[arg-type]


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: RequireApproval(T, expires_in=0), ValueError, "seconds from"),
    (lambda: RequireApproval(T, expires_in=-1), ValueError, "seconds from"),
    (lambda: RequireApproval(T, expires_in=float("nan")), ValueError, "seconds from"),
    (lambda: RequireApproval(T, expires_in=float("inf")), ValueError, "seconds from"),
    (lambda: RequireApproval(T, expires_in=30 * 86400 + 1), ValueError, "seconds from"),
    (lambda: RequireApproval(T, expires_in=True), TypeError, "number of seconds"),
    (lambda: RequireApproval(T, expires_in="60"), TypeError, "number of seconds"),  # type: ignore[arg-type]
    (lambda: RequireApproval(T, mandatory="yes"), TypeError, "mandatory"),  # type: ignore[arg-type]
    (lambda: RequireApproval(T, four_eyes="yes"), TypeError, "four_eyes"),  # type: ignore[arg-type]
    (lambda: Required(T, ()), ValueError, "empty"),
    (lambda: Required(T, "reason"), TypeError, "must be a tuple"),  # type: ignore[arg-type]
    (lambda: OneOf(T, "a", ()), ValueError, "List 1 to"),
    (lambda: OneOf(T, "a", "EUR"), TypeError, "must be a tuple"),  # type: ignore[arg-type]
    (lambda: OneOf(T, "a", (None,)), TypeError, "no value to list"),  # type: ignore[arg-type]
    (lambda: OneOf(T, "a", ([1],)), TypeError, "no value to list"),  # type: ignore[arg-type]
    (lambda: OneOf(T, "a", (float("nan"),)), TypeError, "no value to list"),
    (lambda: OneOf(T, "a", (2**60,)), TypeError, "no value to list"),
    (lambda: OneOf(T, "a", (1,), optional="no"), TypeError, "optional"),  # type: ignore[arg-type]
    (lambda: Range(T, "a"), ValueError, "least, most, or both"),
    (lambda: Range(T, "a", 5, 4), ValueError, "Swap them"),
    (lambda: Range(T, "a", Decimal(5), Decimal(4)), ValueError, "Swap them"),
    (lambda: Range(T, "a", 5, Decimal(6)), TypeError, "both"),
    (lambda: Range(T, "a", "5"), TypeError, "no bound"),  # type: ignore[arg-type]
    (lambda: Range(T, "a", True), TypeError, "no bound"),
    (lambda: Range(T, "a", most=float("nan")), ValueError, "open end"),
    (lambda: Range(T, "a", most=float("inf")), ValueError, "open end"),
    (lambda: Range(T, "a", Decimal("NaN")), ValueError, "open end"),
    (lambda: Range(T, "a", Decimal("sNaN")), ValueError, "open end"),
    (lambda: Range(T, "a", 2**60), ValueError, "plain JSON"),
    (lambda: Pattern(T, "a", "("), ValueError, "Correct it"),
    (lambda: Pattern(T, "a", "a)|(?:b"), ValueError, "Correct it"),
    (lambda: Pattern(T, "a", "(?=a)a"), ValueError, "look-around"),
    (lambda: Pattern(T, "a", "(a)\\1"), ValueError, "Correct it"),
    (lambda: Pattern(T, "a", "(?x)a # b"), ValueError, "Correct it"),
    (lambda: Pattern(T, "a", ""), TypeError, "1 to 1000"),
    (lambda: Pattern(T, "a", "a" * 1001), TypeError, "1 to 1000"),
    (lambda: Pattern(T, "a", "a", max_length=0), ValueError, "max_length"),
    (lambda: Pattern(T, "a", "a", max_length=10**6), ValueError, "max_length"),
    (lambda: Pattern(T, "a", "a", max_length=True), TypeError, "max_length"),
    (lambda: OnlyFor(T), ValueError, "at least one"),
    (lambda: OnlyFor(T, agents="clerk"), TypeError, "must be a tuple"),  # type: ignore[arg-type]
    (lambda: OnlyFor(T, environments=("",)), ValueError, "no name"),
    (lambda: OnlyFor(T, versions=(1,)), ValueError, "no name"),  # type: ignore[arg-type]
    (lambda: ByEnvironment({}), TypeError, "rules must map"),
    (lambda: ByEnvironment({"": MINE}), ValueError, "no name"),
    (lambda: ByTool({}), TypeError, "rules must map"),
    (lambda: ByTool([("a", MINE)]), TypeError, "rules must map"),  # type: ignore[arg-type]
    (lambda: ByTool({"a b": MINE}), ValueError, "no tool name"),
    (lambda: ByTool({"a*": MINE, "ab": MINE}), ValueError, "never reached"),
    (lambda: ByTool({"*": MINE, "a*": MINE}), ValueError, "never reached"),
    (lambda: Guarded((), MINE), ValueError, "empty"),
    (lambda: Guarded(MINE, MINE), TypeError, "must be a tuple"),  # type: ignore[arg-type]
    (lambda: Guarded((MINE,), MINE, seconds=0), ValueError, "seconds from"),
    (lambda: Strictest((MINE, MINE), seconds=3600), ValueError, "seconds from"),
    (lambda: Strictest((MINE,)), ValueError, "two policies"),
]


@pytest.mark.parametrize("build, error, words", WRONG)
def test_what_is_built_wrongly_says_what_to_do(build: Callable[[], Any], error: type[Exception], words: str) -> None:
    rejects(build, error, words)


def test_rules_that_can_all_be_reached_are_fine() -> None:
    assert ByTool({"ab": MINE, "a*": MINE, "b*": MINE, "*": MINE}).names() == {"ab", "a*", "b*", "*"}
