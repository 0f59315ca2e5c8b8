"""Whatever JSON stands there, nothing that breaks a rule passes because it is of another shape than the path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cayu_runtime.policies import OneOf, Pattern, Range, Required
from tests.unit.policies.asked import objection, request

PATHS = ("a", "a.b", "a.b.c", "a.*", "a.*.b", "a.b.*", "a.*.*", "a.*.b.*.c")
TOOLS = ("refund",)


def in_range(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 10


def in_decimal_range(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch("[0-9]{1,2}", value)) and int(value) <= 10


RULES: dict[str, tuple[Callable[[str, bool], Any], Callable[[Any], bool], list[Any]]] = {
    "one_of": (
        lambda path, optional: OneOf(TOOLS, path, ("EUR", 5), optional),
        lambda value: value in ("EUR", 5),
        ["EUR", 5],
    ),
    "range": (lambda path, optional: Range(TOOLS, path, 0, 10, optional), in_range, [5, 0.5]),
    "decimal": (
        lambda path, optional: Range(TOOLS, path, Decimal(0), Decimal(10), optional),
        in_decimal_range,
        ["5"],
    ),
    "pattern": (
        lambda path, optional: Pattern(TOOLS, path, "[A-Z]{3}", optional=optional),
        lambda value: isinstance(value, str) and bool(re.fullmatch("[A-Z]{3}", value)),
        ["EUR"],
    ),
    "required": (
        lambda path, optional: Required(TOOLS, (path,)),
        lambda value: not (value in ([], {}) or (isinstance(value, str) and not value.strip())),
        [0, False, "a", [None]],
    ),
}
names = st.sampled_from(["a", "b", "c", "*", "0", "a.b", "b.c"])
leaves = st.none() | st.booleans() | st.sampled_from(
    [0, 5, 11, -1, 9000, 0.5, 10**400, float("nan"), "EUR", "eur", "5", "11", "", " ", "a", "\ud800"]
)  # fmt: skip
json_values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=8
)
arguments = st.dictionaries(names, json_values, max_size=4)


def under(value: Any, steps: list[str]) -> Iterator[Any]:
    """Everything that somebody may mean by the path: lists are looked into, keys with dots read as steps."""
    if not steps:
        yield value
    elif isinstance(value, list):
        for element in value:
            yield from under(element, steps[1:] if steps[0] == "*" else steps)
    elif isinstance(value, dict):
        for count in range(1, len(steps) + 1):
            key = ".".join(steps[:count])
            if key in value:
                yield from under(value[key], steps[count:])
        if steps[0] == "*":
            for element in value.values():
                yield from under(element, steps[1:])


def passes(rule: Any, asked: Any) -> bool:
    return objection(rule, request(arguments=asked)) is None


@pytest.mark.parametrize("kind", RULES)
@settings(max_examples=300)
@given(path=st.sampled_from(PATHS), optional=st.booleans(), asked=arguments)
def test_no_value_that_breaks_the_rule_passes(kind: str, path: str, optional: bool, asked: Any) -> None:
    build, accepts, _ = RULES[kind]
    if passes(build(path, optional), asked):
        found = list(under(asked, path.split(".")))
        assert all(value is None or accepts(value) for value in found), found
        assert None not in found or (optional and kind != "required")


@pytest.mark.parametrize("kind", RULES)
@settings(max_examples=100)
@given(data=st.data(), path=st.sampled_from(PATHS), optional=st.booleans())
def test_what_is_of_the_shape_passes(kind: str, data: st.DataObject, path: str, optional: bool) -> None:
    build, _, good = RULES[kind]
    optional = optional and kind != "required"
    absent = st.just(None) if optional else st.nothing()

    def shaped(steps: list[str]) -> st.SearchStrategy[Any]:
        if not steps:
            return st.sampled_from(good) | absent
        inner = shaped(steps[1:])
        if steps[0] == "*":
            return st.lists(inner, max_size=3) | absent
        empty: dict[str, Any] = {}
        there = st.fixed_dictionaries({steps[0]: inner}, optional={"z": json_values})
        return there | absent | (st.just(empty) if optional else st.nothing())

    asked = data.draw(shaped(path.split(".")))
    assert passes(build(path, optional), asked if asked is not None else {})


@pytest.mark.parametrize(
    "path, asked, absent",
    [
        ("money.amount", {}, True),
        ("money.amount", {"money": None}, True),
        ("money.amount", {"money": {}}, True),
        ("money.amount", {"money": {"amount": None}}, True),
        ("money.amount", {"money": [{"amount": 9000}]}, False),
        ("money.amount", {"money": []}, False),
        ("money.amount", {"money": [["amount", 9000]]}, False),
        ("money.amount", {"money": 9000}, False),
        ("money.amount", {"money": "9000"}, False),
        ("money.amount", {"money": ""}, False),
        ("money.amount", {"money": False}, False),
        ("money.amount", {"money.amount": 9000}, False),
        ("order.money.amount", {"order": {}}, True),
        ("order.money.amount", {"order": {"money": [9000]}}, False),
        ("order.money.amount", {"order": {"money.amount": 9000}}, False),
        ("order.money.amount", {"order.money": {"amount": 9000}}, False),
        ("items.*.amount", {}, True),
        ("items.*.amount", {"items": None}, True),
        ("items.*.amount", {"items": [None, {}]}, True),
        ("items.*.amount", {"items": {"amount": 9000}}, False),
        ("items.*.amount", {"items": {"*": {"amount": 5}}}, False),
        ("items.*.amount", {"items": [[{"amount": 9000}]]}, False),
        ("items.*.amount", {"items": [{}, 9000]}, False),
    ],
)
def test_only_what_nothing_stands_in_the_way_of_is_absent(path: str, asked: Any, absent: bool) -> None:
    for kind, (build, _, _) in RULES.items():
        optional = kind != "required"
        assert passes(build(path, True), asked) is (absent and optional), kind
        assert not passes(build(path, False), asked), kind
