"""An argument that must match a pattern as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from ..contracts import PolicyIdentity, PolicyRequest, PolicyResult
from .arguments import check_rule, judge_argument
from .parameters import identity_of

MAX_PATTERN = 1000
MAX_LENGTH = 100_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """A guard: in every call of `tools` the argument is a text of at most `max_length` characters that `pattern`
    matches from its first to its last character, a final line break included.

    The pattern runs in time that grows with the text alone, whatever is proposed. For that it is written without
    look-around and back-references; `\\d` and `\\w` mean all of Unicode, so write `[0-9]`. An absent argument denies,
    unless `optional`.
    """

    tools: tuple[str, ...]
    argument: str
    pattern: str
    max_length: int = 1000
    optional: bool = False
    version: str = "1"
    _matcher: SchemaValidator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_rule(self)
        if not isinstance(self.pattern, str) or not 1 <= len(self.pattern) <= MAX_PATTERN:
            raise TypeError(f"Pattern: pattern must be a text of 1 to {MAX_PATTERN} characters.")
        if isinstance(self.max_length, bool) or not isinstance(self.max_length, int):
            raise TypeError("Pattern: max_length must be a whole number.")
        if not 1 <= self.max_length <= MAX_LENGTH:
            raise ValueError(f"Pattern: max_length is {self.max_length}. Give 1 to {MAX_LENGTH} characters.")
        _matcher(self.pattern, self.max_length)  # alone first: "a)|(b" would be well formed inside our brackets
        object.__setattr__(self, "_matcher", _matcher(rf"\A(?:{self.pattern})\z", self.max_length))

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "pattern")

    def check(self, request: PolicyRequest) -> PolicyResult | None:
        wanted = f"a text of at most {self.max_length} characters that matches {self.pattern}"
        return judge_argument(self, request, self._accepts, wanted)

    def names(self) -> frozenset[str]:
        return frozenset(self.tools)

    def argument_paths(self) -> frozenset[tuple[str, str]]:
        return frozenset((tool, self.argument) for tool in self.tools)

    def _accepts(self, value: Any) -> bool:
        return self._matcher.isinstance_python(value)


def _matcher(pattern: str, max_length: int) -> SchemaValidator:
    try:
        schema = core_schema.str_schema(pattern=pattern, max_length=max_length, strict=True, regex_engine="rust-regex")
        return SchemaValidator(schema)
    except SchemaError as error:
        why = str(error).strip().splitlines()[-1]
        raise ValueError(f"Pattern: {pattern!r} can't be used ({why}). Correct it.") from None
