"""Where a rule about an argument looks, and what it does with what stands there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from ..contracts import PolicyRequest, PolicyResult
from .asking import deny
from .parameters import check_tools, check_version, fits

EACH = "*"
MAX_STEPS = 16


class ArgumentRule(Protocol):
    """`argument` is a path: `amount`, `customer.address.country`, or `items.*.sku` for each element of a list."""

    @property
    def tools(self) -> tuple[str, ...]: ...
    @property
    def argument(self) -> str: ...
    @property
    def optional(self) -> bool: ...


class _Missing:
    """Stands for a value that is not there."""


MISSING = _Missing()


def check_rule(rule: Any) -> None:
    """The parameters that all rules about an argument share."""
    check_tools(rule)
    check_version(rule)
    check_path(rule, rule.argument)
    if not isinstance(getattr(rule, "optional", False), bool):
        raise TypeError(f"{type(rule).__name__}: optional is True (an absent argument is fine) or False.")


def check_path(rule: Any, path: Any) -> None:
    steps = path.split(".") if isinstance(path, str) else []
    if not all(steps) or not 1 <= len(steps) <= MAX_STEPS or steps[0] == EACH or len(path) > 500:
        raise ValueError(
            f"{type(rule).__name__}: {path!r:.80} is no path to an argument. Write it as 'amount', 'customer.country' "
            f"or 'items.*.sku' (each element of a list), with at most {MAX_STEPS} steps."
        )


def values_at(value: Any, steps: list[str]) -> Iterator[Any]:
    """What stands at a path, MISSING where the path ends too early. An empty list has no elements to look at."""
    if not steps:
        yield value
    elif steps[0] == EACH and isinstance(value, list | tuple):
        for element in value:
            yield from values_at(element, steps[1:])
    elif isinstance(value, Mapping) and steps[0] != EACH and steps[0] in value:
        yield from values_at(value[steps[0]], steps[1:])
    else:
        yield MISSING


def judge_argument(
    rule: ArgumentRule, request: PolicyRequest, accepts: Callable[[Any], bool], wanted: str
) -> PolicyResult | None:
    """A denial unless every value at the path is accepted. The reason names the argument and what is wanted, never
    the value. Absent and null are the same; with `optional` they are fine.
    """
    if not fits(rule.tools, request.tool):
        return None
    for value in values_at(request.arguments, rule.argument.split(".")):
        if value is MISSING or value is None:
            if not rule.optional:
                return deny(f"The argument {rule.argument!r} is missing; it must be {wanted}.")
        elif not accepts(value):
            return deny(f"The argument {rule.argument!r} must be {wanted}.")
    return None
