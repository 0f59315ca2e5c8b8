"""Canonical JSON: one form and one digest for one value, a sentence for what has none (DESIGN §5; CASES A18, C14)."""

from __future__ import annotations

import hashlib
import json
import random
import time
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from cayu_runtime.core.canonical import MAX_BYTES, MAX_DEPTH, NotCanonical, bounded, canonical, digest, exact, parse

MAX = 2**53 - 1

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(-MAX, MAX) | st.floats(-MAX, MAX)
plain_json = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=25,
)


def shuffled(value: Any, by: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(entry, by)) for key, entry in value.items()]
        by.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [shuffled(entry, by) for entry in value]
    return value


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(plain_json)
@settings(max_examples=500)
def test_the_quick_form_is_that_of_the_library(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("value", [2**53, float("nan"), float("inf"), "\ud800", {"\udfff": 1}, {"a": [2**60]}])
def test_what_the_library_refuses_is_refused(value: Any) -> None:
    with pytest.raises((rfc8785.CanonicalizationError, UnicodeEncodeError)):
        canonical(value)


@given(plain_json)
def test_a_value_comes_back_from_its_canonical_form(value: Any) -> None:
    assert exact(value) == value
    assert parse(canonical(value)) == value
    assert canonical(parse(canonical(value))) == canonical(value)


@given(plain_json)
def test_how_json_was_written_does_not_matter(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=3), json.dumps(value, ensure_ascii=False)):
        assert digest(exact(parse(text))) == digest(value)


@given(plain_json, st.randoms(use_true_random=False))
def test_reordered_keys_have_the_same_digest(value: Any, by: random.Random) -> None:
    assert digest(shuffled(value, by)) == digest(value)


def test_the_canonical_form_is_the_one_of_rfc_8785() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30 / 1e20, 4.50, 2e-3, 1e-27, -0.0, 10.0],
        "string": "\u20ac$\u000f\nA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert canonical(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,10000000000,4.5,0.002,1e-27,0,10],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    by_utf16 = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    assert list(json.loads(canonical(by_utf16))) == ["\r", "1", "\x80", "ö", "€", "😀", "\ufb33"]


def test_a_digest_is_the_sha256_of_the_canonical_form() -> None:
    assert digest({"b": 1, "a": "ü"}) == hashlib.sha256('{"a":"ü","b":1}'.encode()).digest()


@pytest.mark.parametrize(
    "one, other",
    [
        ("7", 7),
        (1, True),
        (0, False),
        (None, "null"),
        (None, ""),
        (None, False),
        ([], {}),
        ([1, 2], [2, 1]),
        ([1, [2]], [[1], 2]),
        ({"a": None}, {}),
        ({"a": 1}, {"A": 1}),
        ({"a": {"b": 1}}, {"a.b": 1}),
        ("é", "e\u0301"),
        ("a", "a "),
        (0.1, 0.2),
        (MAX, MAX - 1),
    ],
)
def test_different_values_have_different_digests(one: Any, other: Any) -> None:
    assert digest(exact(one)) != digest(exact(other))


@pytest.mark.parametrize(
    "one, other",
    [
        ('{"id":7,"active":false}', '{ "active" : false,\n"id" : 7 }'),
        ('{"id":7}', '{"id":7.0}'),
        ('{"id":700}', '{"id":7e2}'),
        ('{"id":-0.0}', '{"id":0}'),
        ('["A"]', '["\\u0041"]'),
        ('["😀"]', '["\\ud83d\\ude00"]'),
        ('["/"]', '["\\/"]'),
    ],
)
def test_one_value_written_in_two_ways_has_one_digest(one: str, other: str) -> None:
    assert digest(exact(parse(one))) == digest(exact(parse(other)))


# ---- what has no exact form ----


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("9007199254740992", "integers of 2^53 and more lose digits. Send it as a string."),
        ("-9007199254740992", "integers of 2^53 and more lose digits. Send it as a string."),
        ("9007199254740992.0", "numbers of 2^53 and more lose digits. Send it as a string."),
        ("1e22", "numbers of 2^53 and more lose digits. Send it as a string."),
        ("1e400", "inf is not a JSON number. Send it as a string."),
        ("-1e400", "-inf is not a JSON number. Send it as a string."),
        ("NaN", "NaN is not a JSON number. Send it as a string."),
        ("Infinity", "Infinity is not a JSON number. Send it as a string."),
        ("-Infinity", "-Infinity is not a JSON number. Send it as a string."),
        ('{"a":{"b":[0,1e400]}}', "$.a.b[1]: inf is not a JSON number."),
        ('{"id":1,"id":2}', "The key 'id' stands twice in one object."),
        ('{"a":[{"\\u0061":1,"a":2}]}', "The key 'a' stands twice in one object."),
        ('"\\ud800"', "the text holds half a character (a lone surrogate). Send valid Unicode."),
        ('"\ud800"', "the text holds half a character (a lone surrogate). Send valid Unicode."),
        ('{"\\udfff":1}', "the text holds half a character (a lone surrogate). Send valid Unicode."),
        ("", "This is not JSON"),
        ("{", "This is not JSON"),
        ("{'a':1}", "This is not JSON"),
        ('{"a":1} and more', "This is not JSON"),
        ("[1,]", "This is not JSON"),
        ('"tab\there"', "This is not JSON"),
        ("]]]]", "This is not JSON"),
    ],
)
def test_text_that_has_no_exact_form_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(NotCanonical) as refused:
        exact(parse(text))
    assert sentence in str(refused.value)
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize("raw", [b'"\xff"', b"\xff\xfe[\0]\0", '["a"]'.encode("utf-16"), '["a"]'.encode("utf-32")])
def test_bytes_that_are_not_utf8_are_no_json(raw: bytes) -> None:
    with pytest.raises(NotCanonical, match="This is not JSON"):
        parse(raw)


@pytest.mark.parametrize(
    "value, sentence",
    [
        (2**53, "integers of 2^53 and more"),
        (-(2**53), "integers of 2^53 and more"),
        pytest.param(10**5000, "integers of 2^53 and more", id="5,000 digits"),
        (float(2**53), "numbers of 2^53 and more"),
        (float("nan"), "nan is not a JSON number"),
        ({"a": [float("inf")]}, "$.a[0]: inf is not a JSON number"),
        ({1: "a"}, "the key 1 is not a string"),
        ({None: "a"}, "the key None is not a string"),
        ({"a": {1}}, "$.a: a set is not JSON"),
        ({"a": b"x"}, "$.a: a bytes is not JSON"),
        ([object()], "$[0]: a object is not JSON"),
        ("\udc80", "half a character"),
    ],
)
def test_a_value_that_has_no_exact_form_gets_a_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(NotCanonical) as refused:
        exact(value)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("value", [MAX, -MAX, float(MAX), 0.1 + 0.2, 5e-324, 9007199254740990.0, "\0", "\ufffd", ""])
def test_what_just_fits_is_exact(value: Any) -> None:
    assert exact(value) == value
    assert parse(canonical(value)) == value


def test_too_many_digits_for_python_are_too_many() -> None:
    with pytest.raises(NotCanonical, match="digit"):
        parse("1" * 5000)


# ---- limits: depth and size, looked at before anything is parsed ----


@pytest.mark.parametrize("levels", [1, 2, MAX_DEPTH])
def test_nesting_up_to_the_limit_is_accepted(levels: int) -> None:
    assert exact(parse("[" * levels + "]" * levels)) == nested(levels)
    assert exact(parse('{"a":' * levels + "1" + "}" * levels))


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 2_000, 100_000])
@pytest.mark.parametrize(
    "left, middle, right", [("[", "", "]"), ('{"a":', "1", "}"), ('[{"a":', "1", "}]"), ("[", "", "")]
)
def test_nesting_over_the_limit_is_refused_without_a_crash(levels: int, left: str, middle: str, right: str) -> None:
    with pytest.raises(NotCanonical, match="nested deeper than 64 levels"):
        parse(left * levels + middle + right * levels)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900])
def test_an_object_that_is_nested_too_deep_is_refused_like_its_text(levels: int) -> None:
    with pytest.raises(NotCanonical, match="nested deeper than 64 levels"):
        exact(nested(levels))
    with pytest.raises(NotCanonical, match="nested deeper than 64 levels"):
        exact({"arguments": nested(levels - 1)})


def test_an_object_that_contains_itself_is_nested_too_deep() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(NotCanonical, match="nested deeper than 64 levels"):
        exact(loop)


@pytest.mark.parametrize("text", ['"' + "[" * 100 + '"', '"\\"' + "[{" * 100 + '"', '["\\\\","' + "[" * 100 + '"]'])
def test_brackets_inside_of_text_are_no_nesting(text: str) -> None:
    assert parse(text)


def test_nesting_cannot_hide_behind_another_encoding() -> None:
    """Text whose bytes could be read as UTF-16, where a character's second byte looks like a quotation mark."""
    levels = 100_000
    disguised = '[\0"\0\0""\0,\0' + "[\0" * levels + "]\0" * (levels + 1)
    with pytest.raises(NotCanonical):
        parse(disguised)


def test_a_megabyte_is_accepted_and_one_byte_more_is_not() -> None:
    largest = json.dumps("x" * (MAX_BYTES - 2))
    assert len(largest) == MAX_BYTES
    assert exact(parse(largest))
    for text in (largest[:-1] + 'x"', " " + largest, "ü" * (MAX_BYTES // 2 + 1)):
        with pytest.raises(NotCanonical, match="at most 1048576 are accepted"):
            parse(text)
    with pytest.raises(NotCanonical, match="at most 1048576 are accepted"):
        exact("x" * (MAX_BYTES - 1))


def test_a_megabyte_of_keys_with_the_last_one_repeated_is_refused_at_once() -> None:
    keys = ",".join(f'"{n:x}":0' for n in range(90_000))
    began = time.monotonic()
    with pytest.raises(NotCanonical, match="The key '15f8f' stands twice in one object"):
        parse("{" + keys + ',"15f8f":1}')
    assert time.monotonic() - began < 5


@settings(max_examples=300)
@given(st.text() | st.binary() | st.text('[]{}",:\\0123456789eE.-\0u ', max_size=60))
def test_nothing_but_a_sentence_comes_of_any_text(text: str | bytes) -> None:
    assert said_about(text).endswith(".")


def said_about(text: str | bytes) -> str:
    try:
        parse(text)
    except NotCanonical as refused:
        return str(refused)
    return "It is JSON."


@settings(max_examples=300)
@given(plain_json)
def test_text_cut_anywhere_is_refused_with_a_sentence(value: Any) -> None:
    text = json.dumps([value])
    for cut in {1, len(text) // 2, len(text) - 1}:
        with pytest.raises(NotCanonical):
            parse(text[:cut])


# ---- text for people, cut where it must be ----


@pytest.mark.parametrize("length", [0, 1, 199, 200, 201, 5_000, 10_000_000])
def test_text_is_cut_to_its_limit_and_says_how_long_it_was(length: int) -> None:
    cut = bounded("x" * length, 200)
    assert len(cut) <= 200
    if length <= 200:
        assert cut == "x" * length
    else:
        assert cut.endswith(f"… [{length} characters in all]")
