"""Effective arguments: what is reviewed, digested and run is one thing; what is invalid gets a sentence (A17, A18)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BeforeValidator, Field

from cayu_runtime import Agent, PolicyDecision, PolicyRequest, PolicyResult, Tool, ToolContext, ToolEffect, tool
from cayu_runtime.core.canonical import MAX_BYTES, canonical
from cayu_runtime.core.judgement import ProposedCall, action_digests, judge
from cayu_runtime.models import Session
from tests.unit.judging import ByHand, Policy, by_hints, judged

DENY = PolicyDecision.DENY


def effective(which: Tool, arguments: Any) -> Any:
    call = judged(which, arguments)
    assert not call.problem, call.problem
    return call.arguments


def problem_of(which: Tool, arguments: Any) -> str:
    call = judged(which, arguments)
    assert call.decision is DENY
    assert call.policy.name == "validation"
    return call.problem


def digest_of(which: Tool, arguments: Any) -> bytes:
    call = judged(which, arguments)
    return action_digests("t", which.spec.name, "1", "external", call.arguments, "", "op")[0]


def with_hint(hint: Any, *default: Any) -> Tool:
    def asked(x: Any) -> str:
        return str(x)

    asked.__annotations__ = {"x": hint}
    asked.__defaults__ = default or None
    return tool()(asked)


# ---- effective arguments ----


@pytest.mark.parametrize(
    "text, expected",
    [
        ('{"id":7}', {"id": 7, "active": False}),
        ('{"id":"7"}', {"id": 7, "active": False}),
        ('{"id":7.0,"active":"yes"}', {"id": 7, "active": True}),
        ('{"active":1,"id":"7"}', {"id": 7, "active": True}),
    ],
)
def test_arguments_of_a_function_are_coerced_and_defaulted(text: str, expected: Any) -> None:
    assert effective(by_hints, text) == expected
    assert effective(by_hints, json.loads(text)) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ('{"id":7}', {"id": 7, "active": False}),
        ('{"id":7,"active":true}', {"id": 7, "active": True}),
    ],
)
def test_arguments_of_a_class_get_the_defaults_of_its_schema(text: str, expected: Any) -> None:
    assert effective(ByHand(), text) == expected


@pytest.mark.parametrize("text", ['{"id":"7"}', '{"id":7.5}', '{"id":true}', '{"id":7,"active":"yes"}', '{"id":null}'])
def test_arguments_of_a_class_are_never_coerced(text: str) -> None:
    assert "is not of type" in problem_of(ByHand(), text)


def test_only_top_level_defaults_are_filled_in() -> None:
    inner = {"type": "object", "properties": {"b": {"default": 1}}}
    schema = {"type": "object", "properties": {"a": inner, "c": {"default": {"d": []}}, "e": True}}
    assert effective(ByHand(schema=schema), '{"a":{},"e":2}') == {"a": {}, "c": {"d": []}, "e": 2}


def test_a_default_that_the_schema_refuses_is_invalid_too() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": "seven"}}}
    assert "seven" in problem_of(ByHand(schema=schema), "{}")


def test_the_digest_covers_what_coercion_and_defaults_made() -> None:
    """A18: one digest for what a function means by both; reordered keys never matter."""
    loose, full = '{"id":"7"}', '{"id":7,"active":false}'
    assert digest_of(by_hints, loose) == digest_of(by_hints, full)
    assert digest_of(ByHand(), '{"id":7}') == digest_of(ByHand(), full)
    assert problem_of(ByHand(), loose)
    assert digest_of(ByHand(schema={"type": "object"}), loose) != digest_of(ByHand(schema={"type": "object"}), full)
    for which in (by_hints, ByHand()):
        assert digest_of(which, '{"active":false,"id":7}') == digest_of(which, full)


@pytest.mark.parametrize(
    "hint, sent, shown, runs_with",
    [
        (Decimal, {"x": "1.50"}, {"x": "1.50"}, Decimal("1.50")),
        (
            datetime,
            {"x": "2026-01-02T03:04:05+00:00"},
            {"x": "2026-01-02T03:04:05Z"},
            datetime(2026, 1, 2, 3, 4, 5, 0, UTC),
        ),
        (timedelta, {"x": 5}, {"x": "PT5S"}, timedelta(seconds=5)),
        (bytes, {"x": "ab"}, {"x": "ab"}, b"ab"),
        (set[int], {"x": [3, 3]}, {"x": [3]}, {3}),
        (list[int], {"x": ["1", 2]}, {"x": [1, 2]}, [1, 2]),
        (int | str, {"x": "7"}, {"x": "7"}, "7"),
        (Literal["a", "b"], {"x": "a"}, {"x": "a"}, "a"),
        (Annotated[str, BeforeValidator(str.strip)], {"x": " a "}, {"x": "a"}, "a"),
        (Annotated[int, Field(alias="y")], {"y": "7"}, {"y": 7}, 7),
        (Any, {"x": {"a": [1, None]}}, {"x": {"a": [1, None]}}, {"a": [1, None]}),
    ],
)
def test_what_the_reviewer_sees_is_what_the_function_gets(hint: Any, sent: Any, shown: Any, runs_with: Any) -> None:
    seen: list[Any] = []

    def asked(x: Any) -> str:
        seen.append(x)
        return ""

    asked.__annotations__ = {"x": hint}
    which = tool()(asked)
    assert effective(which, sent) == shown
    which.run(ToolContext("s"), shown)
    assert seen == [runs_with]


@pytest.mark.parametrize("hint", [Annotated[int, AfterValidator(lambda v: v + 1)], Annotated[int, Field(exclude=True)]])
def test_a_function_whose_arguments_change_when_read_twice_is_refused(hint: Any) -> None:
    """The reviewer would see 8 and the tool would run with 9."""
    assert problem_of(with_hint(hint), '{"x":"7"}')


# ---- what is blocked as invalid, always with a sentence ----


@pytest.mark.parametrize(
    "which, arguments, said",
    [
        (by_hints, "{}", "id: Field required"),
        (by_hints, '{"id":"seven"}', "id: Input should be a valid integer"),
        (by_hints, '{"id":7,"more":1}', "more: Extra inputs are not permitted"),
        (by_hints, '{"id":"9007199254740993"}', "integers of 2^53 and more lose digits"),
        (with_hint(float), '{"x":"inf"}', "inf is not a JSON number"),
        (with_hint(float), '{"x":"nan"}', "nan is not a JSON number"),
        (with_hint(Annotated[int, AfterValidator(lambda v: 1 // 0)]), '{"x":7}', "could not read these arguments"),
        (ByHand(), "{}", '"id" is a required property'),
        (ByHand(), '{"id":7,"more":1}', "Additional properties are not allowed"),
        (ByHand(schema={"type": "nonsense"}), '{"id":7}', "could not read these arguments"),
        *(
            (which, arguments, said)
            for which in (by_hints, ByHand())
            for arguments, said in (
                ('{"id":9007199254740992}', "integers of 2^53 and more lose digits"),
                ('{"id":NaN}', "NaN is not a JSON number"),
                ('{"id":1e400}', "inf is not a JSON number"),
                ('{"id":1,"id":2}', "The key 'id' stands twice"),
                ('{"id":' + "[" * 64 + "]" * 64 + "}", "nested deeper than 64 levels"),
                ('{"id":' + "[" * 2000 + "]" * 2000 + "}", "nested deeper than 64 levels"),
                ('{"id":"' + "x" * MAX_BYTES + '"}', "at most 1048576 are accepted"),
                ({"id": "x" * MAX_BYTES}, "at most 1048576 are accepted"),
                ('{"id":"\\ud800"}', "half a character"),
                ('{"id":7', "This is not JSON"),
                ("null", "The arguments must be one JSON object"),
                ("[7]", "The arguments must be one JSON object"),
                ('"id"', "The arguments must be one JSON object"),
                ([7], "The arguments must be one JSON object"),
                (b'{"id":7}', "The arguments must be one JSON object"),
                ({7: 7}, "the key 7 is not a string"),
                ({"id": {1}}, "a set is not JSON"),
            )
        ),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, Tool) else value.spec.name,
)
def test_invalid_arguments_are_blocked_with_a_sentence(which: Tool, arguments: Any, said: str) -> None:
    assert said in problem_of(which, arguments)


@pytest.mark.parametrize("arguments", [None, ""])
def test_no_arguments_are_an_empty_object(arguments: Any) -> None:
    assert effective(ByHand(schema={"type": "object"}), arguments) == {}


def test_an_unknown_tool_is_blocked_and_the_known_ones_are_named() -> None:
    session = Session(session_id="s-1", requester="user:alice")
    agent = Agent("a", "m", tools=(by_hints, ByHand()))
    call = judge(agent, session, ProposedCall("c1", "by_heart", '{"id":7}'))
    assert call.problem == "There is no tool 'by_heart'. The tools are: by_hints, by_hand."
    assert (call.tool, call.decision, call.effect) == (None, DENY, ToolEffect.NONE)
    assert call.arguments == {"$raw": '{"id":7}'}
    assert "none" in judge(Agent("a", "m"), session, ProposedCall("c1", "x", "")).problem


@pytest.mark.parametrize(
    "arguments", ['{"id":' + "9" * 500_000 + "}", {"id": "x" * 5_000_000}, {"id": ["\0", b"\xff"]}]
)
def test_what_is_kept_of_invalid_arguments_is_bounded_and_storable(arguments: Any) -> None:
    kept = canonical(judged(by_hints, arguments).arguments)
    assert len(kept) <= MAX_BYTES
    assert b"\0" not in kept


def test_no_policy_is_asked_about_an_invalid_call() -> None:
    def never(request: PolicyRequest) -> PolicyResult:
        raise AssertionError

    assert judged(by_hints, "{}", policy=Policy(never)).policy.name == "validation"
