"""An argument that must lie between two numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..contracts import PolicyIdentity, PolicyRequest, PolicyResult
from .arguments import check_rule, judge_argument
from .parameters import identity_of

DECIMAL = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")


@dataclass(frozen=True, slots=True)
class Range:
    """A guard: in every call of `tools` the argument is at least `least` and at most `most`, both included.

    Bounds of int or float are for JSON numbers. Bounds of Decimal are for texts that hold a plain decimal number, as
    money is written: `Range(("refund",), "amount", most=Decimal("500"))` accepts "25.50". One kind never passes for
    the other, and true is no number. An absent argument denies, unless `optional`.
    """

    tools: tuple[str, ...]
    argument: str
    least: int | float | Decimal | None = None
    most: int | float | Decimal | None = None
    optional: bool = False
    version: str = "1"

    def __post_init__(self) -> None:
        check_rule(self)
        bounds = [bound for bound in (self.least, self.most) if bound is not None]
        if not bounds:
            raise ValueError("Range: give least, most, or both.")
        for bound in bounds:
            if isinstance(bound, bool) or not isinstance(bound, int | float | Decimal):
                raise TypeError(f"Range: {bound!r:.80} is no bound. Give an int, a float or a Decimal.")
            if not (bound.is_finite() if isinstance(bound, Decimal) else math.isfinite(bound)):
                raise ValueError(f"Range: {bound} is no bound. Leave an open end out.")
        if len({isinstance(bound, Decimal) for bound in bounds}) > 1:
            raise TypeError("Range: least and most must both be numbers, or both be Decimal (for texts).")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"Range: least ({self.least}) is more than most ({self.most}). Swap them.")
        _ = self.identity.digest  # an int that JSON can't hold exactly is refused here

    @property
    def identity(self) -> PolicyIdentity:
        return identity_of(self, "range")

    def check(self, request: PolicyRequest) -> PolicyResult | None:
        return judge_argument(self, request, self._accepts, self._wanted())

    def names(self) -> frozenset[str]:
        return frozenset(self.tools)

    def argument_paths(self) -> frozenset[tuple[str, str]]:
        return frozenset((tool, self.argument) for tool in self.tools)

    def _accepts(self, value: Any) -> bool:
        if isinstance(self.least, Decimal) or isinstance(self.most, Decimal):
            if not isinstance(value, str) or not DECIMAL.fullmatch(value):
                return False
            value = Decimal(value)
        elif isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf < value < math.inf:
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def _wanted(self) -> str:
        kind = "a decimal text" if isinstance(self.least, Decimal) or isinstance(self.most, Decimal) else "a number"
        if self.least is None:
            return f"{kind} of at most {self.most}"
        return f"{kind} of at least {self.least}" + ("" if self.most is None else f" and at most {self.most}")
