"""A value shown exactly: nothing hidden, nothing cut, every type told apart."""

import json
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cayu_review.exact import MAX_ROWS, Row, Token, brief, editable_text, rows, tokens, visible


def shown(value: object) -> list[tuple[str, str, str]]:
    return [("".join(t.text for t in row.path), "".join(t.text for t in row.value), row.kind) for row in rows(value)]


def test_types_are_told_apart() -> None:
    value = {"a": 5000, "b": "5000", "c": True, "d": "true", "e": None, "f": "null", "g": 1.5, "h": 5000.0, "i": ""}
    assert shown(value) == [
        ("a", "5000", "number"),
        ("b", '"5000"', "text"),
        ("c", "true", "true/false"),
        ("d", '"true"', "text"),
        ("e", "null", "null"),
        ("f", '"null"', "text"),
        ("g", "1.5", "number"),
        ("h", "5000.0", "number"),
        ("i", '""', "text"),
    ]


def test_nesting_is_told_by_the_path() -> None:
    value = {"lines": [{"sku": "A", "tags": []}, {}], "to": {"name": "Ann", "odd key": 1}, "n": [1, "1"]}
    assert shown(value) == [
        ("lines[0].sku", '"A"', "text"),
        ("lines[0].tags", "[]", "empty list"),
        ("lines[1]", "{}", "empty object"),
        ("to.name", '"Ann"', "text"),
        ('to["odd key"]', "1", "number"),
        ("n", '[1, "1"]', "list"),
    ]


def test_no_arguments_at_all_are_shown_as_such() -> None:
    assert shown({}) == [("(all)", "{}", "empty object")]


@pytest.mark.parametrize(
    "text, written",
    [
        ("77\u202e43", r"77\u202e43"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("\u2066x\u2069", r"\u2066x\u2069"),
        ("a\u00a0b\u3000", r"a\u00a0b\u3000"),
        ("nul\0", r"nul\u0000"),
        ("\x1b[31m", r"\u001b[31m"),
        ("a\u2028b", r"a\u2028b"),
        ("tag\U000e0041", r"tag\u{e0041}"),
        ("\u3164filler\u2800", r"\u3164filler\u2800"),
        ("x\ufe0f", r"x\ufe0f"),
        ("\u0301x", r"\u0301x"),
        ("private\ue000", r"private\ue000"),
        ("caf\u00e9 e\u0301 שלום 你好 🙂", "caf\u00e9 e\u0301 שלום 你好 🙂"),
        ("tab\tline\r\n", r"tab\tline\r\n"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, written: str) -> None:
    assert visible(text) == written


def test_a_written_escape_differs_from_the_same_letters() -> None:
    real, typed = rows({"a": "x\u200b"})[0].value, rows({"a": r"x\u200b"})[0].value
    assert real == (Token('"x', "plain"), Token(r"\u200b", "escape"), Token('"', "plain"))
    assert typed == (Token('"x', "plain"), Token("\\\\", "escape"), Token('u200b"', "plain"))


def test_quotes_inside_a_text_cannot_end_it() -> None:
    assert shown({"a": 'yes", "amount": "1'})[0][1] == r'"yes\", \"amount\": \"1"'


def test_a_line_break_is_written_and_breaks_the_line() -> None:
    assert tokens("a\nb") == (Token("a", "plain"), Token(r"\n", "break"), Token("b", "plain"))


def test_a_hidden_character_in_a_key_is_written_out() -> None:
    assert shown({"amo\u200bunt": 1})[0][0] == r'["amo\u200bunt"]'


def test_a_long_text_is_whole_and_says_how_long_it_is() -> None:
    text = "x" * 300_000
    (row,) = rows({"body": text})
    assert row.value == (Token(f'"{text}"', "plain"),)
    assert row.note == "300,000 characters"


def test_a_value_of_very_many_lines_becomes_one_and_stays_whole() -> None:
    value = {"cells": [{"n": n} for n in range(MAX_ROWS + 1)]}
    (row,) = rows(value)
    assert json.loads("".join(token.text for token in row.value)) == value
    assert len(rows({"cells": [{"n": n} for n in range(MAX_ROWS)]})) == MAX_ROWS


def test_sixty_four_levels_are_one_line() -> None:
    value: object = "deep"
    for _ in range(64):
        value = {"a": value}
    assert shown(value) == [(".".join(["a"] * 64), '"deep"', "text")]


def test_runs_of_hidden_characters_stand_together() -> None:
    assert len(tokens("\u200b" * 100_000)) == 1


def test_no_invisible_character_of_unicode_is_shown_as_it_is() -> None:
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.category(character) in hidden and character != " ":
            assert character not in visible(character)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_every_leaf_stands_on_the_page(value: dict[str, object]) -> None:
    """Undoing the escapes of all lines gives back every leaf, in order."""
    assert [_parsed(row) for row in rows(value)] == list(_leaves(value))


def _parsed(row: Row) -> object:
    text = "".join(token.text for token in row.value)
    out, at = [], 0
    while at < len(text):
        if text.startswith("\\u{", at):
            end = text.index("}", at)
            out.append(json.dumps(chr(int(text[at + 3 : end], 16)))[1:-1])
            at = end + 1
        elif text[at] == "\\":
            out.append(text[at : at + 2])
            at += 2
        else:
            out.append(text[at])
            at += 1
    return json.loads("".join(out), strict=False)


def _leaves(value: object) -> list[object]:
    if isinstance(value, dict) and value:
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list) and any(isinstance(item, (list, dict)) for item in value):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


@pytest.mark.parametrize(
    "value",
    [
        {"a": "Zürich 日本", "n": [1, 2.5, None, True], "o": {"p": []}},
        {"hidden": "a\u202eb\u200b\u00a0\0\t\n\\u200b\"\U000e0001\u0301"},
        {"\u2028key": "\u0301"},
        {},
    ],
    ids=["plain", "hidden", "key", "empty"],
)
def test_editable_text_is_the_value_and_hides_nothing(value: Any) -> None:
    text = editable_text(value)
    assert json.loads(text) == value
    assert visible(text.replace("\n", " ")) == text.replace("\n", " "), "what can't be seen is written out"


def test_editable_text_keeps_what_can_be_read() -> None:
    assert editable_text({"city": "Zürich", "memo": "é"}) == '{\n  "city": "Zürich",\n  "memo": "é"\n}'


def test_brief_names_short_scalars_and_counts_what_it_leaves_out() -> None:
    value = {"order": "1042", "amount": 500, "memo": "x" * 60, "lines": [1], "empty": "", "reason": "late", "more": 1}
    found, left = brief(value, "1042")
    assert [("".join(t.text for t in row.path), "".join(t.text for t in row.value)) for row in found] == [
        ("amount", "500"),
        ("reason", '"late"'),
    ]
    assert left == 4
    assert brief({}, "") == ([], 0)
