"""A JSON value as lines that hide nothing: every type visible, every invisible character written out (UX 6).

Pure: no Django, no markup. `rows` walks a value; `tokens` splits a text into what can be shown as it is and what
must be written as its escape.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["plain", "escape", "break"]

MAX_ROWS = 2000
LONG_TEXT = 200
BRIEF = 48
SAFE_RUN = re.compile(r"[ !#-\[\]-~]+")  # printable ASCII without the two that JSON escapes
PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

# Letters, marks and symbols that Unicode files among the visible ones and that show nothing.
BLANK = frozenset(map(ord, "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\U0001d159")) | frozenset(
    (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
)
UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text. `plain`: shown as it is; `escape`: written out; `break`: an escape that a new line follows."""

    text: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Row:
    """One line: where in the value it stands, its JSON type in words, the value as JSON, the length of a long text."""

    path: tuple[Token, ...]
    kind: str
    value: tuple[Token, ...]
    note: str = ""


def tokens(text: str) -> tuple[Token, ...]:
    """`text` with each invisible, bidirectional or control character as its escape; runs of one kind stand together."""
    return tuple(_joined(_characters(text)))


def visible(text: str) -> str:
    """The same as one plain string, for a title, a button, a name."""
    return "".join(_written(character, shown) for character, shown in _characters(text))


def editable_text(value: Any) -> str:
    """A value as JSON text that a person can change: indented, and what cannot be seen as its JSON escape."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(json.dumps(one)[1:-1] if kind == "escape" else one for one, kind in _characters(text))


def brief(value: Mapping[str, Any], without: str, most: int = 2) -> tuple[list[Row], int]:
    """The first short scalars of an object, but the one that reads `without`; and how many members are left out."""
    found = [
        row
        for name, item in value.items()
        if not isinstance(item, (Mapping, list)) and item not in ("", None) and item != without
        for row in rows({name: item})
        if sum(len(token.text) for token in (*row.path, *row.value)) <= BRIEF
    ][:most]
    named = len(found) + (without != "" and without in value.values())
    return found, len(value) - named


def rows(value: Any) -> tuple[Row, ...]:
    """The lines of a value: one for each scalar, and one for each list of scalars or empty object. Nothing is left out.

    A value with more than MAX_ROWS lines becomes a single one, as plain JSON.
    """
    found: list[Row] = []
    for row in _walk(value, ""):
        found.append(row)
        if len(found) > MAX_ROWS:
            return (Row(tokens("(all)"), _kind(value), _json(value), "as one JSON value"),)
    return tuple(found)


def _walk(value: Any, path: str) -> Iterator[Row]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _walk(item, _below(path, key))
    elif isinstance(value, list) and any(isinstance(item, (list, Mapping)) for item in value):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]")
    else:
        yield Row(tokens(path or "(all)"), _kind(value), _json(value), _note(value))


def _below(path: str, key: str) -> str:
    if not PLAIN_KEY.fullmatch(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true/false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, Mapping):
        return "object" if value else "empty object"
    return "list" if value else "empty list"


def _note(value: Any) -> str:
    if isinstance(value, str) and len(value) > LONG_TEXT:
        return f"{len(value):,} characters"
    if isinstance(value, list) and len(value) > 1:
        return f"{len(value):,} items"
    return ""


def _json(value: Any) -> tuple[Token, ...]:
    """A value as JSON text. Strings keep their quotes, so "5000" is not 5000; their escapes are marked as such."""
    return tuple(_joined(_json_pieces(value)))


def _json_pieces(value: Any) -> Iterator[tuple[str, Kind]]:
    if isinstance(value, str):
        yield '"', "plain"
        for character, kind in _characters(value):
            if character in '"\\' and kind == "plain":
                yield "\\", "escape"
                yield character, "escape"
            else:
                yield character, kind
        yield '"', "plain"
    elif isinstance(value, Mapping):
        yield "{", "plain"
        for index, (key, item) in enumerate(value.items()):
            yield (", " if index else ""), "plain"
            yield from _json_pieces(key)
            yield ": ", "plain"
            yield from _json_pieces(item)
        yield "}", "plain"
    elif isinstance(value, list):
        yield "[", "plain"
        for index, item in enumerate(value):
            yield (", " if index else ""), "plain"
            yield from _json_pieces(item)
        yield "]", "plain"
    else:
        yield json.dumps(value), "plain"


def _characters(text: str) -> Iterator[tuple[str, Kind]]:
    """Each character, or run of plain ones, and how it is shown. A mark with nothing to sit on is written out."""
    before_shown, at = False, 0
    while at < len(text):
        run = SAFE_RUN.match(text, at)
        if run:
            yield run[0], "plain"
            before_shown, at = run[0][-1] != " ", run.end()
            continue
        character, at = text[at], at + 1
        kind = _kind_of(character, before_shown)
        before_shown = kind == "plain"
        yield character, kind


def _kind_of(character: str, before_shown: bool) -> Kind:
    if character == "\n":
        return "break"
    category = unicodedata.category(character)
    if category in UNSHOWN or ord(character) in BLANK or (category[0] == "M" and not before_shown):
        return "escape"
    return "plain"


def _written(character: str, kind: Kind) -> str:
    if kind == "plain" or character in '"\\':
        return character
    code = ord(character)
    return SHORT_ESCAPES.get(character) or (f"\\u{code:04x}" if code < 0x10000 else f"\\u{{{code:x}}}")


def _joined(pieces: Iterator[tuple[str, Kind]]) -> Iterator[Token]:
    """Neighbours of one kind as one token; a line break ends its token."""
    held: list[str] = []
    kind: Kind = "plain"
    for character, its in pieces:
        if its != kind or kind == "break":
            if held:
                yield Token("".join(held), kind)
            held, kind = [], its
        held.append(character if its == "plain" else _written(character, its))
    if held:
        yield Token("".join(held), kind)
