"""An argument that must be one of listed values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import rfc8785

from ..contracts import PolicyIdentity, PolicyRequest, PolicyResult
from .arguments import check_rule, judge_argument
from .parameters import identity_of, set_tuple

MAX_VALUES = 10_000


@dataclass(frozen=True, slots=True)
class OneOf:
    """A guard: in every call of `tools` the argument equals, as JSON, one of `values` (texts, numbers, true, false).

    `"7"`, `7` and `true` are three values; `7` and `7.0` are one. An absent argument denies, unless `optional`.
    """

    tools: tuple[str, ...]
    argument: str
    values: tuple[str | int | float | bool, ...]
    optional: bool = False
    version: str = "1"
    _forms: frozenset[bytes | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_rule(self)
        set_tuple(self, "values")
        if not 1 <= len(self.values) <= MAX_VALUES:
            raise ValueError(f"OneOf: values has {len(self.values)} entries. List 1 to {MAX_VALUES} values.")
        object.__setattr__(self, "_forms", frozenset(map(_form, self.values)))
        for value in self.values:
            if not isinstance(value, str | int | float) or _form(value) is None:
                raise TypeError(f"OneOf: {value!r:.80} is no value to list. Give texts, exact numbers or bools.")

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "one_of")

    def check(self, request: PolicyRequest) -> PolicyResult | None:
        return judge_argument(self, request, self._accepts, "one of the values that are listed")

    def names(self) -> frozenset[str]:
        return frozenset(self.tools)

    def argument_paths(self) -> frozenset[tuple[str, str]]:
        return frozenset((tool, self.argument) for tool in self.tools)

    def _accepts(self, value: Any) -> bool:
        return _form(value) in self._forms


def _form(value: Any) -> bytes | None:
    """The one JSON form of a value, or None when it is too long or has none. None is never listed."""
    try:
        return rfc8785.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return None
