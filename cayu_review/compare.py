"""A proposal beside the call that claims to be what was proposed: exactly equal, or where it differs (UX 7).

Pure: no Django, no markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import rfc8785

from .exact import Row, Token, rows


@dataclass(frozen=True, slots=True)
class Pair:
    """One line of the proposal and the same line of the call. None: it stands on the other side alone."""

    path: tuple[Token, ...]
    proposed: Row | None
    called: Row | None
    same: bool


def differing_fields(fields: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """The names of what is not exactly equal as JSON, type included, or stands on one side alone; sorted."""
    return sorted(name for name in set(fields) | set(arguments) if _exact(fields, name) != _exact(arguments, name))


def _exact(values: Mapping[str, Any], name: str) -> bytes | None:
    return rfc8785.dumps(values[name]) if name in values else None


def pairs(fields: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[Pair, ...]:
    """Both, line by line in the proposal's order; what the call has beyond it comes last."""
    proposed = {_text(row): row for row in rows(fields)}
    called = {_text(row): row for row in rows(arguments)}
    differs = differing_fields(fields, arguments)
    found = []
    for path in dict.fromkeys((*proposed, *called)):
        one, other = proposed.get(path), called.get(path)
        shown = one or other
        assert shown is not None
        found.append(Pair(shown.path, one, other, same=not differs or one == other))
    return tuple(found)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Pair, ...]:
    """The lines that a change touched: `proposed` is before, `called` after."""
    return tuple(pair for pair in pairs(before, after) if not pair.same)


def _text(row: Row) -> str:
    return "".join(token.text for token in row.path)
