"""The range of a standing grant as a person reads it, a line for each argument."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def range_words(rules: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One line for each rule; values as JSON, so that "7" and 7 differ. No rule: calls without any argument."""
    return [f"{path}: {_said(rule)}" for path, rule in rules.items()] or ["no argument at all"]


def _said(rule: Mapping[str, Any]) -> str:
    absent = ", or nothing" if rule.get("optional") else ""
    if "any" in rule:
        return f"anything{absent}"
    if "equals" in rule:
        return f"{_exact(rule['equals'])}{absent}"
    if "one_of" in rule:
        return f"one of {', '.join(map(_exact, rule['one_of']))}{absent}"
    ends = [f"{word} {_exact(rule[name])}" for word, name in (("at least", "min"), ("at most", "max")) if name in rule]
    return " and ".join(ends) + absent


def _exact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
