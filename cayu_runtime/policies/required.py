"""Arguments that must be there and say something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..contracts import PolicyIdentity, PolicyRequest, PolicyResult
from .arguments import Nothing, check_path, values_at
from .asking import deny
from .parameters import check_tools, check_version, fits, identity_of, set_tuple


@dataclass(frozen=True, slots=True)
class Required:
    """A guard: each path in `arguments` holds a value in every call of `tools`.

    Null, an empty or blank text, an empty list and an empty object are no value; 0 and false are.
    """

    tools: tuple[str, ...]
    arguments: tuple[str, ...]
    version: str = "1"

    def __post_init__(self) -> None:
        check_tools(self)
        check_version(self)
        set_tuple(self, "arguments")
        if not self.arguments:
            raise ValueError("Required: arguments is empty. Name at least one argument.")
        for path in self.arguments:
            check_path(self, path)

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "required")

    def check(self, request: PolicyRequest) -> PolicyResult | None:
        if not fits(self.tools, request.tool):
            return None
        for path in self.arguments:
            if not all(map(_says_something, values_at(request.arguments, path.split(".")))):
                return deny(f"The argument {path!r} is required and must not be empty.")
        return None

    def names(self) -> frozenset[str]:
        return frozenset(self.tools)

    def argument_paths(self) -> frozenset[tuple[str, str]]:
        return frozenset((tool, path) for tool in self.tools for path in self.arguments)


def _says_something(value: Any) -> bool:
    if value is None or isinstance(value, Nothing):
        return False
    if isinstance(value, str):
        return bool(value.strip())
    return bool(value) if isinstance(value, list | tuple | dict) else True
