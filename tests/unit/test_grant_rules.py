"""The range of a standing grant: nothing outside of it is covered, whatever it looks like."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cayu_runtime.core.grant_rules import check_rules, covers
from cayu_runtime.errors import InvalidRequest

pytestmark = pytest.mark.unit

SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3)
)


@pytest.mark.parametrize(
    "rule, inside, outside",
    [
        ({"equals": 7}, [7, 7.0], ["7", True, None, 8, [7], {"x": 7}]),
        ({"equals": 1}, [1], [True, "1", None]),
        ({"equals": True}, [True], [1, "true", None]),
        ({"equals": None}, [None], [False, 0, ""]),
        ({"equals": {"a": 1}}, [{"a": 1}], [{"a": True}, {"a": 1, "b": 2}, {}]),
        ({"one_of": ["EUR", 7]}, ["EUR", 7], ["eur", "7", None, ["EUR"]]),
        ({"min": 0, "max": 5}, [0, 5, 2.5, -0.0], [-1, 5.01, True, False, "3", None, math.nan, math.inf, [3]]),
        ({"min": 0}, [0, 10**15], [-0.1, math.nan, -math.inf, math.inf]),
        ({"max": "5.00"}, ["5", "5.00", "-1", "0.1"], ["5.01", "1e0", " 5", "NaN", "", 5, True, None, "٣", "5\n"]),
        ({"any": True}, ["x", None, [], {"deep": [1]}], []),
        ({"max": 5, "optional": True}, [5, None], [6, "5", True]),
    ],
)
def test_a_rule_takes_exactly_its_values(rule: Any, inside: list[Any], outside: list[Any]) -> None:
    rules = check_rules({"a": rule})
    assert all(covers(rules, {"a": value}) for value in inside)
    assert [value for value in outside if covers(rules, {"a": value})] == []


@pytest.mark.parametrize(
    "rules, arguments, covered",
    [
        ({}, {}, True),
        ({}, {"a": None}, False),
        ({"a": {"any": True}}, {}, False),
        ({"a": {"any": True, "optional": True}}, {}, True),
        ({"a.b": {"max": 5}}, {"a": {"b": 5}}, True),
        ({"a.b": {"max": 5}}, {"a": {"b": 5, "c": 1}}, False),
        ({"a.b": {"max": 5}}, {"a": {}}, False),
        ({"a.b": {"max": 5}}, {"a": None}, False),
        ({"a.b": {"max": 5}}, {"a.b": 5}, False),
        ({"a.b": {"max": 5}}, {"a": [{"b": 5}]}, False),
        ({"a.*.b": {"max": 5}}, {"a": [{"b": 5}, {"b": 1}]}, True),
        ({"a.*.b": {"max": 5}}, {"a": [{"b": 5}, {"b": 6}]}, False),
        ({"a.*.b": {"max": 5}}, {"a": [{"b": 5}, {}]}, False),
        ({"a.*.b": {"max": 5}}, {"a": {"*": {"b": 5}}}, False),
        ({"a.*": {"max": 5}}, {"a": {"*": 5}}, False),
        ({"a.*": {"max": 5}}, {"a": []}, True),
        ({"a.*": {"max": 5}}, {"a": 5}, False),
        ({"a": {"any": True}}, ["a"], False),
    ],
)
def test_each_argument_needs_a_rule_and_each_rule_an_argument(rules: Any, arguments: Any, covered: bool) -> None:
    assert covers(check_rules(rules), arguments) is covered


@given(least=st.integers(-100, 100), width=st.integers(0, 100), value=VALUES)
def test_nothing_outside_of_a_range_of_numbers_is_covered(least: int, width: int, value: Any) -> None:
    rules = check_rules({"a": {"min": least, "max": least + width}})
    number = type(value) in (int, float) and math.isfinite(value)
    assert covers(rules, {"a": value}) is (number and least <= value <= least + width)


@given(value=VALUES | st.decimals(-10, 10, places=2).map(str))
def test_nothing_outside_of_a_range_of_decimal_texts_is_covered(value: Any) -> None:
    if covers(check_rules({"a": {"min": "0", "max": "5.00"}}), {"a": value}):
        assert isinstance(value, str)
        assert Decimal(0) <= Decimal(value) <= Decimal(5)


@given(arguments=st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_what_no_rule_names_is_never_covered(arguments: dict[str, Any]) -> None:
    covered = covers(check_rules({"a": {"any": True}}), arguments)
    assert covered is (set(arguments) == {"a"})


@given(rules=st.dictionaries(st.text(max_size=4), VALUES, max_size=3))
def test_rules_are_refused_with_a_sentence_or_can_be_asked(rules: Any) -> None:
    try:
        checked = check_rules(rules)
    except InvalidRequest:
        return
    assert covers(checked, {"a": 1}) in (True, False)


def test_rules_are_bounded() -> None:
    with pytest.raises(InvalidRequest, match="at most 50"):
        check_rules({f"a{n}": {"any": True} for n in range(51)})
    with pytest.raises(InvalidRequest, match="8 KiB"):
        check_rules({"a": {"equals": "x" * 9000}})
