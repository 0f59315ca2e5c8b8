"""What has happened must be recordable: `storable` takes any value, fails for none, and says what it left out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cayu_runtime.core.canonical import MAX_DEPTH, canonical, exact, storable, storable_key
from cayu_runtime.models.fields import JSONTextField

MAX = 2**53 - 1

odd_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters())  # lone surrogates and NUL too
    | st.binary(max_size=40)
    | st.decimals()
    | st.datetimes()
    | st.uuids()
    | st.just(object())
)
odd_keys = st.text(st.characters(), max_size=5) | st.integers() | st.binary(max_size=3) | st.none() | st.floats()
odd_values = st.recursive(
    odd_leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.sets(st.integers() | st.text(st.characters(), max_size=3), max_size=4)
        | st.frozensets(st.binary(max_size=3), max_size=4)
        | st.dictionaries(odd_keys, inner, max_size=4)
    ),
    max_leaves=20,
)

clean_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
clean_json = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX, MAX) | st.floats(-MAX, MAX) | clean_text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(clean_text, inner, max_size=5),
    max_leaves=25,
)


def is_storable(value: Any) -> Any:
    """`storable` made of it what canonical JSON, the database's text and the model's transcript all take."""
    made = storable(value)
    assert exact(made) == made
    assert not any("\0" in text for text in texts_of(made))
    stored = JSONTextField().get_prep_value(made)
    assert stored is not None or made is None
    assert stored is None or json.loads(stored) == made
    assert storable(made) == made
    return made


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for entry in value:
            yield from texts_of(entry)
    elif isinstance(value, dict):
        for entry in [*value, *value.values()]:
            yield from texts_of(entry)


@settings(max_examples=400)
@given(odd_values)
def test_any_value_becomes_canonical_json(value: Any) -> None:
    is_storable(value)


@given(clean_json)
def test_what_json_can_say_stays_as_it_is(value: Any) -> None:
    assert storable(value) == value
    assert canonical(storable(value)) == canonical(value)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    "value, made",
    [
        (2**53, {"$number": "9007199254740992"}),
        (-(2**53), {"$number": "-9007199254740992"}),
        (MAX, MAX),
        (float("nan"), {"$number": "nan"}),
        (float("inf"), {"$number": "inf"}),
        (float("-inf"), {"$number": "-inf"}),
        (1e400, {"$number": "inf"}),
        (2.0**53, {"$number": "9007199254740992.0"}),
        (0.5, 0.5),
        ("a\0b", {"$text": "a\\u0000b"}),
        ("\ud800", {"$text": "\\ud800"}),
        ("ok 😀", "ok 😀"),
        (b"\x00\xff", {"$bytes": "00ff", "size": 2}),
        (bytearray(b"\x01"), {"$bytes": "01", "size": 1}),
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (frozenset({3}), [3]),
        ({"a\0": 1}, {"a\\u0000": 1}),
        ({7: 1}, {"7": 1}),
        ({None: 1}, {"None": 1}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Decimal("1.50"), {"$repr": "Decimal('1.50')"}),
        (Fraction(1, 3), {"$repr": "Fraction(1, 3)"}),
        (UUID(int=0), {"$repr": "UUID('00000000-0000-0000-0000-000000000000')"}),
        (
            datetime(2026, 1, 2, tzinfo=UTC),
            {"$repr": "datetime.datetime(2026, 1, 2, 0, 0, tzinfo=datetime.timezone.utc)"},
        ),
    ],
    ids=repr,
)
def test_what_json_cannot_say_is_tagged(value: Any, made: Any) -> None:
    assert is_storable(value) == made
    assert type(storable(value)) is type(made) or isinstance(value, str)


def test_long_bytes_and_long_reprs_are_cut_and_bytes_say_their_size() -> None:
    assert is_storable(b"x" * 10_000) == {"$bytes": "78" * 1024, "size": 10_000}
    assert len(is_storable(Decimal("1" * 10_000))["$repr"]) == 500


@pytest.mark.parametrize("kind", ["list", "dict", "tuple", "frozenset"])
@pytest.mark.parametrize("levels", [MAX_DEPTH - 2, MAX_DEPTH, 5_000])
def test_deep_structures_are_cut_with_a_word_about_it(kind: str, levels: int) -> None:
    value: Any = "core"
    for _ in range(levels):
        if kind == "list":
            value = [value]
        elif kind == "dict":
            value = {"a": value}
        elif kind == "tuple":
            value = (value,)
        else:
            value = frozenset([value])
    assert ("$truncated" in str(is_storable(value))) is (levels > MAX_DEPTH - 2)


def test_what_was_cut_still_fits_into_a_record_around_it() -> None:
    """A result is kept in a payload, which is one level more; so is a message around it."""
    value: Any = "\0"
    for _ in range(100):
        value = [value]
    assert exact({"record": is_storable(value)})


@pytest.mark.parametrize("make", [dict, list])
def test_a_value_that_contains_itself_is_cut(make: type) -> None:
    value: Any = make()
    if make is dict:
        value["again"] = value
    else:
        value.append(value)
    assert "$truncated" in str(is_storable(value))


# ---- objects that do their worst ----


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class NoStr:
    def __str__(self) -> str:
        raise RuntimeError("no str")

    __repr__ = __str__


class ReprIsNoText:
    def __repr__(self) -> str:
        return 7  # type: ignore[return-value]


class ReprWithHalfCharacter:
    def __repr__(self) -> str:
        return "a\0\ud800"


class NoItems(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")


class NoIteration(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no iteration")


class OddFloat(float):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class OddText(str):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = str.__hash__


@dataclass
class Link:
    next: Any


def long_chain() -> Link:
    """Its repr needs more stack than there is."""
    link = Link(None)
    for _ in range(5_000):
        link = Link(link)
    return link


def test_an_odd_repr_is_stored_clean() -> None:
    assert is_storable(ReprWithHalfCharacter()) == {"$repr": "a\\u0000\\ud800"}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(NoRepr(), id="repr raises"),
        pytest.param(ReprIsNoText(), id="repr is no text"),
        pytest.param({NoStr(): 1}, id="a key's str raises"),
        pytest.param(NoItems(), id="items raises"),
        pytest.param(NoIteration([1]), id="iteration raises"),
        pytest.param(OddFloat("nan"), id="a number's repr raises"),
        pytest.param(OddText("x"), id="a text's comparison raises"),
        pytest.param(10**5_000, id="more digits than Python writes"),
        pytest.param({10**5_000: 1}, id="more digits than Python writes, as a key"),
        pytest.param(long_chain(), id="repr needs more stack than there is"),
    ],
)
def test_an_object_that_does_its_worst_is_stored_somehow(value: Any) -> None:
    is_storable(value)
    assert is_storable({"receipt": "r-1", "odd": [value]})["receipt"] == "r-1", "the rest is not lost with it"


@pytest.mark.parametrize(
    "value", [{1: "a", "1": "b"}, {"\0": "a", "\\u0000": "b"}, {None: "a", "None": "b"}, {True: "a", "True": "b"}]
)
def test_keys_that_become_equal_lose_nothing(value: Any) -> None:
    made = json.dumps(is_storable(value))
    assert '"a"' in made
    assert '"b"' in made


EXPLODING = """
import resource
resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
from cayu_runtime.core.canonical import canonical, storable
{value}
assert len(canonical(storable(value))) < 64 * 1024 * 1024
"""


@pytest.mark.parametrize(
    "value",
    [
        "value = {}; value['a'] = value; value['b'] = [value]",
        "value = []\nfor _ in range(60): value = [value, value]",
    ],
    ids=["contains itself twice", "shares its parts"],
)
def test_a_value_that_explodes_when_written_out_is_cut(value: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", EXPLODING.format(value=value)],
        cwd=Path(__file__).parent.parent.parent, capture_output=True, timeout=50,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr.decode()[-500:]


@given(st.text(st.characters()))
def test_clean_text_stays_and_dirty_text_becomes_clean(text: str) -> None:
    made = storable_key(text)
    assert "\0" not in made
    made.encode("utf-8")
    if "\0" not in text and not any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        assert made == text
