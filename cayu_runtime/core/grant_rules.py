"""The range of a standing grant, as JSON: a rule for each argument that its calls may have (docs/grants.md).

    {"amount": {"min": "0", "max": "50.00"}, "currency": {"equals": "EUR"}, "note": {"any": true, "optional": true}}

A call lies in it if each of its arguments has a rule that accepts it, and each rule without `optional` finds a value.
What no rule names may not be there at all, so that an argument that is new one day is never let through unseen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..errors import InvalidRequest
from .canonical import NotCanonical, canonical, exact, size_of

EACH = "*"
MAX_RULES = 50
MAX_VALUES = 100
MAX_BYTES = 8 * 1024
MAX_PATH = 200
DECIMAL = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
KINDS = ({"any"}, {"equals"}, {"one_of"}, {"min"}, {"max"}, {"min", "max"})
FORM = 'Write each rule as {"min": 0, "max": 50}, {"one_of": ["EUR"]}, {"equals": "EUR"} or {"any": true}.'

Path = tuple[str, ...]


def check_rules(rules: Any) -> dict[str, dict[str, Any]]:
    """The rules of a grant, or InvalidRequest with what is wrong with them."""
    if not isinstance(rules, Mapping) or not all(isinstance(path, str) for path in rules):
        raise InvalidRequest(f"The rules must be one JSON object, with an argument's path as each key. {FORM}")
    try:
        rules = exact(rules)
    except NotCanonical as error:
        raise InvalidRequest(f"The rules are no exact JSON: {error}") from None
    if len(rules) > MAX_RULES:
        raise InvalidRequest(f"There are {len(rules)} rules; a grant has at most {MAX_RULES}.")
    for path, rule in rules.items():
        _check_path(path)
        _check_rule(path, rule)
    paths = [_steps(path) for path in rules]
    for inner in paths:
        if any(inner[: len(outer)] == outer and inner != outer for outer in paths):
            raise InvalidRequest(f"The rule for {'.'.join(inner)!r} lies inside another one. Leave one of them out.")
    if size_of(rules) > MAX_BYTES:
        raise InvalidRequest(f"The rules are larger than {MAX_BYTES // 1024} KiB. Make the range simpler.")
    return dict(rules)


def _check_path(path: str) -> None:
    steps = path.split(".")
    if not all(steps) or steps[0] == EACH or len(path) > MAX_PATH:
        raise InvalidRequest(
            f"{path!r:.80} is no path to an argument. Write 'amount', 'customer.country' or 'items.*.sku'."
        )


def _check_rule(path: str, rule: Any) -> None:
    if not isinstance(rule, Mapping) or set(rule) - {"optional"} not in KINDS:
        raise InvalidRequest(f"The rule for {path!r} can't be read. {FORM}")
    if rule.get("optional", True) is not True or rule.get("any", True) is not True:
        raise InvalidRequest(f"In the rule for {path!r}, 'any' and 'optional' are true or left out.")
    if "one_of" in rule:
        values = rule["one_of"]
        if not isinstance(values, list) or not 1 <= len(values) <= MAX_VALUES:
            raise InvalidRequest(f"In the rule for {path!r}, one_of lists 1 to {MAX_VALUES} values.")
    bounds = [rule[name] for name in ("min", "max") if name in rule]
    numbers = [_number(bound, like=bound) for bound in bounds]
    if None in numbers or len({isinstance(bound, str) for bound in bounds}) > 1:
        raise InvalidRequest(
            f"In the rule for {path!r}, min and max are both numbers, or both texts of a plain decimal, as money is "
            "written: '50.00'."
        )
    if len(numbers) > 1 and Decimal(numbers[0] or 0) > Decimal(numbers[1] or 0):
        raise InvalidRequest(f"In the rule for {path!r}, min is more than max. Swap them.")


def covers(rules: Mapping[str, Mapping[str, Any]], arguments: Any) -> bool:
    """Whether effective arguments lie in the range. What can't be read doesn't."""
    by_path = {_steps(path): rule for path, rule in rules.items()}
    if not isinstance(arguments, dict) or not _within(by_path, (), arguments):
        return False
    return all(_is_there(arguments, path) for path, rule in by_path.items() if "optional" not in rule)


def _within(rules: Mapping[Path, Mapping[str, Any]], path: Path, value: Any) -> bool:
    rule = rules.get(path)
    if rule is not None:
        return _accepts(rule, value) or (value is None and "optional" in rule)
    if path and not any(below[: len(path)] == path for below in rules):
        return False
    if isinstance(value, dict):
        return all(name != EACH and _within(rules, (*path, name), entry) for name, entry in value.items())
    return isinstance(value, list) and all(_within(rules, (*path, EACH), entry) for entry in value)


def _is_there(value: Any, path: Path) -> bool:
    if not path:
        return True
    if path[0] == EACH:
        return isinstance(value, list) and all(_is_there(entry, path[1:]) for entry in value)
    return isinstance(value, dict) and path[0] in value and _is_there(value[path[0]], path[1:])


def _accepts(rule: Mapping[str, Any], value: Any) -> bool:
    if "any" in rule:
        return True
    if "equals" in rule:
        return _same(rule["equals"], value)
    if "one_of" in rule:
        return any(_same(listed, value) for listed in rule["one_of"])
    least, most = rule.get("min"), rule.get("max")
    number = _number(value, like=most if least is None else least)
    if number is None:
        return False
    return (least is None or number >= Decimal(least)) and (most is None or number <= Decimal(most))


def _number(value: Any, *, like: Any) -> Decimal | None:
    """`value` as a number, if it is of the same kind as `like`: a text with a plain decimal, or a finite number."""
    if isinstance(like, str):
        return Decimal(value) if isinstance(value, str) and DECIMAL.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return Decimal(value)


def _same(one: Any, other: Any) -> bool:
    form = _form(one)
    return form is not None and form == _form(other)


def _form(value: Any) -> bytes | None:
    """The one JSON form of a value, in which "7", 7 and true differ; None when it has none."""
    try:
        return canonical(value)
    except (NotCanonical, ValueError, TypeError, RecursionError):
        return None


def _steps(path: str) -> Path:
    return tuple(path.split("."))
