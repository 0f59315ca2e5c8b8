"""At start a rule for an argument that its tool's schema leaves no room for is told: a misspelt path, most often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pydantic import BaseModel

from cayu_runtime import Agent, PolicyIdentity, PolicyRequest, Tool, ToolEffect, ToolSpec, tool
from cayu_runtime.checks import messages_about
from cayu_runtime.policies import Allow, ByEnvironment, ByTool, Guarded, OneOf, Pattern, Range, Required, Strictest
from cayu_runtime.policies.schema import cannot_hold

ALL = Allow(("*",))
CLOSED = {"type": "object", "properties": {"amount": {}, "anything": True}, "additionalProperties": False}
OPEN = {"type": "object", "properties": {"amount": {"type": "number"}}}


class Money(BaseModel, extra="forbid"):
    amount: float
    parts: list[Money] = []


@tool(effect=ToolEffect.NONE)
def pay(order: str, money: Money | None = None, notes: tuple[str, ...] = ()) -> str:
    """Pay."""
    raise AssertionError("a check runs no tool")


@tool(effect=ToolEffect.NONE)
def look(order: str, limit: int = 5) -> str:
    """Look."""
    raise AssertionError("a check runs no tool")


def told(policy: Any, *tools: Tool) -> list[tuple[str, str]]:
    """The paths that are told, each with the tool or beginning that its rule names."""
    messages = list(
        messages_about([Agent("clerk", "m", tools=tools or (pay, look), policy=policy, environment="here")])
    )
    assert {(message.id, message.is_serious()) for message in messages} <= {("cayu.W012", False)}
    return [(message.msg.split("'")[5], message.msg.split("'")[3]) for message in messages]


def guarded(*guards: Any) -> Guarded:
    return Guarded(guards, ALL)


@pytest.mark.parametrize("optional", [True, False])
def test_a_misspelt_path_is_told_with_the_arguments_that_there_are(optional: bool) -> None:
    policy = guarded(Range(("pay",), "money.amuont", most=500, optional=optional))
    (message,) = messages_about([Agent("clerk", "m", tools=(pay,), policy=policy)])
    assert message.id == "cayu.W012"
    assert "'money.amuont' of 'pay'" in message.msg
    assert message.hint == "Correct the path or remove the rule. The arguments are: money, notes, order."


@pytest.mark.parametrize(
    "rule",
    [
        Range(("pay",), "amuont", most=5, optional=True),
        OneOf(("pay",), "amuont", ("a",), optional=True),
        Pattern(("pay",), "amuont", "a", optional=True),
        Required(("pay",), ("order", "amuont")),
    ],
    ids=lambda rule: type(rule).__name__,
)
@pytest.mark.parametrize(
    "around",
    [
        guarded,
        lambda rule: Guarded((Required(("pay",), ("order",)),), guarded(rule)),
        lambda rule: Strictest((ALL, guarded(rule))),
        lambda rule: ByTool({"pay": guarded(rule)}, otherwise=ALL),
        lambda rule: ByTool({"look": ALL}, otherwise=guarded(rule)),
        lambda rule: ByEnvironment({"here": ALL, "production": guarded(rule)}),
    ],
    ids=["guard", "then", "strictest", "by_tool", "otherwise", "by_environment"],
)
def test_it_is_found_wherever_its_rule_stands(rule: Any, around: Any) -> None:
    assert told(around(rule)) == [("pay", "amuont")]


def test_a_rule_for_many_tools_is_told_when_none_of_them_has_the_argument() -> None:
    assert told(guarded(Range(("*",), "limit", most=5, optional=True))) == []
    assert told(guarded(Range(("*",), "limits", most=5, optional=True))) == [("*", "limits")]
    assert told(guarded(Range(("pay", "look"), "limit", most=5, optional=True))) == [("pay", "limit")]
    assert told(ByTool({"p*": guarded(Range(("*",), "limit", most=5)), "*": ALL})) == [("p*", "limit")]
    assert told(ByTool({"p*": guarded(Range(("*", "pay"), "order", most=5)), "*": ALL})) == []


def test_one_policy_of_several_agents_is_asked_once_about_all_their_tools() -> None:
    policy = guarded(Range(("*",), "limit", most=5, optional=True), Range(("pay",), "sum", most=5))
    agents = [Agent("one", "m", tools=(pay,), policy=policy), Agent("two", "m", tools=(pay, look), policy=policy)]
    assert [message.id for message in messages_about(agents)] == ["cayu.W012"]


def test_a_tool_of_a_class_that_is_open_may_have_any_argument() -> None:
    class Free(Tool):
        spec = ToolSpec("free", "", OPEN, ToolEffect.NONE)

    class Shut(Tool):
        spec = ToolSpec("shut", "", CLOSED, ToolEffect.NONE)

    rule = Range(("free", "shut"), "sum", most=5, optional=True)
    assert told(guarded(rule), Free(), Shut()) == [("shut", "sum")]


class OwnGuard:
    identity = PolicyIdentity("own", "1", {})

    def __init__(self, paths: Any) -> None:
        self.paths = paths

    def check(self, request: PolicyRequest) -> None:
        raise AssertionError("a check asks about no call")

    def argument_paths(self) -> Iterable[tuple[str, str]]:
        found: Iterable[tuple[str, str]] = self.paths
        return found


def test_a_guard_of_ones_own_may_say_where_it_looks() -> None:
    assert told(guarded(OwnGuard([("pay", "sum"), ("pay", "order")]))) == [("pay", "sum")]


@pytest.mark.parametrize("paths", [None, 5, [("pay",)], ["pay"]], ids=repr)
def test_one_that_says_it_wrongly_is_an_error(paths: Any) -> None:
    messages = messages_about([Agent("clerk", "m", tools=(pay,), policy=guarded(OwnGuard(paths)))])
    assert [message.id for message in messages] == ["cayu.E032"]


# ---- what a schema leaves room for ----

LOOP: dict[str, Any] = {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}


@pytest.mark.parametrize(
    "schema, path, impossible",
    [
        (CLOSED, "amount", False),
        (CLOSED, "amount.value", False),
        (CLOSED, "anything.at.all", False),
        (CLOSED, "amuont", True),
        (OPEN, "amuont", False),
        (OPEN, "amount.value", True),
        ({}, "a", False),
        (True, "a", False),
        (False, "a", True),
        ("nonsense", "a", False),
        ({"properties": 7}, "a", False),
        ({"type": ["object", "null"], "additionalProperties": False}, "a", True),
        ({"additionalProperties": {"type": "string"}}, "a", False),
        ({"additionalProperties": {"type": "string"}}, "a.b", True),
        ({"additionalProperties": False, "patternProperties": {"^a": {}}}, "a", False),
        ({"properties": {"a": {"type": "array", "items": CLOSED}}}, "a.*.amount", False),
        ({"properties": {"a": {"type": "array", "items": CLOSED}}}, "a.*.b", True),
        ({"properties": {"a": {"type": "array", "items": CLOSED}}}, "a.amount", True),
        ({"properties": {"a": {"type": "array"}}}, "a.*.b", False),
        ({"properties": {"a": {"prefixItems": [OPEN], "items": False}}}, "a.*.b", False),
        ({"properties": {"a": {"prefixItems": [CLOSED], "items": False}}}, "a.*.b", True),
        ({"properties": {"a": {"type": "object"}}}, "a.*", True),
        ({"anyOf": [CLOSED, {"type": "null"}]}, "b", True),
        ({"anyOf": [CLOSED, OPEN]}, "b", False),
        ({"oneOf": [CLOSED, CLOSED]}, "b", True),
        ({"allOf": [OPEN, CLOSED]}, "b", True),
        ({"allOf": [OPEN, OPEN]}, "b", False),
        ({"$ref": "#/$defs/x", "$defs": {"x": CLOSED}}, "b", True),
        ({"$ref": "#/$defs/x~1y", "$defs": {"x/y": CLOSED}}, "b", True),
        ({"$ref": "#/$defs/none"}, "b", False),
        ({"$ref": "https://example.org/x"}, "b", False),
        ({"$ref": "#", **CLOSED}, "b", True),
        (LOOP, "b", False),
        (pay.schema, "money.parts.*.parts.*.amount", False),
        (pay.schema, "money.parts.*.parts.*.sum", True),
        (pay.schema, "notes.*", False),
        (pay.schema, "notes", False),
        (pay.schema, "note", True),
    ],
)
def test_only_what_is_certain_is_told(schema: Any, path: str, impossible: bool) -> None:
    assert cannot_hold(schema, path) is impossible
