"""Where a rule about an argument looks, and what it does with what stands there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
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


class Nothing(Enum):
    """Stands for a value that is not there."""

    MISSING = auto()
    """What would hold it lacks it, or is itself missing or null."""

    MISSHAPEN = auto()
    """Something stands in its way: a list where an object is meant, a text where a list is meant."""


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
    """What stands at a path, or which Nothing. An empty list has no elements to look at."""
    if not steps:
        yield value
    elif value is None:
        yield Nothing.MISSING
    elif steps[0] == EACH and isinstance(value, list | tuple):
        for element in value:
            yield from values_at(element, steps[1:])
    elif steps[0] == EACH or not isinstance(value, Mapping) or _runs_on(value, steps):
        yield Nothing.MISSHAPEN
    elif steps[0] in value:
        yield from values_at(value[steps[0]], steps[1:])
    else:
        yield Nothing.MISSING


def _runs_on(value: Mapping[str, Any], steps: list[str]) -> bool:
    """Whether several steps together are one key here: `{"money.amount": 5}` for the path `money.amount`."""
    return any(".".join(steps[:count]) in value for count in range(2, len(steps) + 1))


def judge_argument(
    rule: ArgumentRule, request: PolicyRequest, accepts: Callable[[Any], bool], wanted: str
) -> PolicyResult | None:
    """A denial unless every value at the path is accepted. The reason names the argument and what is wanted, never
    the value. Absent and null are the same, on the way to the value too; with `optional` they are fine. Anything else
    than an object on the way (a list for `*`) denies.
    """
    if not fits(rule.tools, request.tool):
        return None
    for value in values_at(request.arguments, rule.argument.split(".")):
        if value is Nothing.MISSING or value is None:
            if not rule.optional:
                return deny(f"The argument {rule.argument!r} is missing; it must be {wanted}.")
        elif value is Nothing.MISSHAPEN or not accepts(value):
            return deny(f"The argument {rule.argument!r} must be {wanted}.")
    return None
