"""JSON and digests come back from either database as they were given, whatever a tool put into them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core import serializers
from django.db import IntegrityError, connection, transaction
from django.db.models import F, Value
from hypothesis import given, settings
from hypothesis import strategies as st

from cayu_runtime.models import Attempt, EffectRecord, Message, Question, ToolCall
from tests import rows

pytestmark = pytest.mark.django_db

ALL_TEXT = "".join(map(chr, [*range(0x100), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF, 0x1F600, 0x10FFFF]))
VALUES = [
    {},
    [],
    "",
    0,
    False,
    True,
    -1.5,
    2**53,
    10**300,
    1e-300,
    {"nested": [{"a": [None, [], {}]}]},
    {"b": 1, "a": 2, "": 3},
    "NUL \0 in the middle",
    {"\0": "\0"},
    "half a character \ud800 and the other half \udc00",
    "\\u0000 written out, \\ and \" and '",
    ALL_TEXT,
    "null",
    '{"text": "that looks like JSON"}',
    "x" * 1_000_000,
    [[[[[[[[[["deep"]]]]]]]]]],
]


def message(value: Any) -> Message:
    row = rows.message(body=value)
    row.refresh_from_db()
    return row


def stored(column: str, row: Any) -> Any:
    with connection.cursor() as cursor:
        pk = row.pk if isinstance(row.pk, int) or connection.vendor == "postgresql" else row.pk.hex
        cursor.execute(f"SELECT {column} FROM {row._meta.db_table} WHERE id = %s", [pk])
        return cursor.fetchone()[0]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:40])
def test_json_comes_back_as_it_was_given(value: Any) -> None:
    read = message(value).body
    assert read == value
    assert type(read) is type(value)
    assert json.dumps(read) == json.dumps(value), "the order of keys too"


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:40])
def test_json_comes_back_from_an_update_and_from_bulk_writes(value: Any) -> None:
    call = rows.call("completed")
    ToolCall.objects.filter(pk=call.pk).update(result=value)
    assert ToolCall.objects.get(pk=call.pk).result == value
    call.result = value
    ToolCall.objects.bulk_update([call], ["result"])
    assert ToolCall.objects.values_list("result", flat=True).get(pk=call.pk) == value


@pytest.mark.parametrize("value", [v for v in VALUES if v != "x" * 1_000_000], ids=lambda value: ascii(value)[:40])
def test_json_can_be_looked_up_by_its_value(value: Any) -> None:
    row = message(value)
    assert Message.objects.filter(body=value).get() == row
    assert not Message.objects.exclude(body=value).exists()


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters()),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
        max_leaves=15,
    ).filter(lambda value: value is not None)
)
def test_any_json_comes_back(value: Any) -> None:
    assert message(value).body == value


def test_only_ascii_is_stored_so_that_no_database_can_refuse_it() -> None:
    text = stored("body", message({"a": "\0\ud800ü😀"}))
    assert text == '{"a":"\\u0000\\ud800\\u00fc\\ud83d\\ude00"}'
    assert text.isascii()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], {"a": {"b": float("nan")}}])
def test_numbers_that_json_does_not_know_are_refused_before_the_database(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        rows.message(body=value)


@pytest.mark.parametrize("value", [{1}, b"x", object(), {"a": 1j}])
def test_objects_that_are_no_json_are_refused_before_the_database(value: Any) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        rows.message(body=value)


# ---- NULL is "there is none" ----


def test_none_is_null_and_not_the_json_null() -> None:
    call = rows.call("prepared")
    assert stored("result", call) is None
    assert ToolCall.objects.filter(result__isnull=True).get() == call
    call.refresh_from_db()
    assert call.result is None


def test_a_column_that_must_be_given_refuses_none() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        rows.message(body=None)


def test_the_json_null_inside_of_a_value_stays() -> None:
    assert message({"a": None}).body == {"a": None}
    assert message([None]).body == [None]


def test_a_question_cannot_be_answered_with_nothing() -> None:
    """`None` is NULL everywhere, so the CHECK holds: an answered question has an answer."""
    question = rows.question("answered", answer="")
    assert stored("answer", question) == '""'
    with pytest.raises(IntegrityError), transaction.atomic():
        Question.objects.filter(pk=question.pk).update(answer=None)


def test_null_can_be_told_from_empty() -> None:
    empties: tuple[Any, ...] = ({}, [], "", 0, False)
    for empty in empties:
        effect = rows.effect("outcome_unknown", failure_evidence=empty)
        effect.refresh_from_db()
        assert effect.failure_evidence == empty
        assert effect.failure_evidence is not None
    rows.effect("outcome_unknown")
    assert EffectRecord.objects.filter(failure_evidence__isnull=True).count() == 1


# ---- digests ----

DIGESTS = [bytes(32), bytes(range(32)), b"\xff" * 32, b"\0" * 31 + b"\x01", b"'\"\\%s\n" + bytes(26)]


@pytest.mark.parametrize("value", DIGESTS, ids=lambda value: value.hex()[:12])
def test_a_digest_comes_back_as_bytes(value: bytes) -> None:
    call = rows.call(action_digest=value)
    for read in (
        ToolCall.objects.get(pk=call.pk).action_digest,
        ToolCall.objects.values_list("action_digest", flat=True).get(pk=call.pk),
        ToolCall.objects.annotate(again=F("action_digest")).get(pk=call.pk).again,
    ):
        assert type(read) is bytes
        assert read == value


@pytest.mark.parametrize("value", DIGESTS, ids=lambda value: value.hex()[:12])
def test_a_digest_can_be_looked_up(value: bytes) -> None:
    call = rows.call(action_digest=value)
    rows.call(action_digest=b"\x7f" * 32)
    assert ToolCall.objects.filter(action_digest=value).get() == call
    assert ToolCall.objects.filter(action_digest__in=[value, b"\x01" * 32]).get() == call


def test_a_memoryview_and_a_bytearray_are_digests_too() -> None:
    for given_as in (bytearray, memoryview):
        call = rows.call(action_digest=given_as(rows.DIGEST))
        call.refresh_from_db()
        assert call.action_digest == rows.DIGEST
        assert type(call.action_digest) is bytes


def test_no_digest_is_null() -> None:
    attempt = rows.attempt(request_digest=None)
    attempt.refresh_from_db()
    assert attempt.request_digest is None
    assert Attempt.objects.filter(request_digest__isnull=True).exists()


def test_a_value_computed_by_the_database_reads_as_a_digest() -> None:
    rows.call()
    read = ToolCall.objects.annotate(
        made=Value(rows.DIGEST, output_field=ToolCall._meta.get_field("action_digest"))
    ).get()
    assert read.made == rows.DIGEST


# ---- dump and load ----


@pytest.mark.parametrize("body", VALUES[:-2], ids=lambda value: ascii(value)[:40])
def test_a_dump_loads_as_it_was(body: Any) -> None:
    row = rows.message(body=body)
    (loaded,) = serializers.deserialize("json", serializers.serialize("json", [row]))
    assert loaded.object.body == body  # type: ignore[attr-defined]
    (call,) = serializers.deserialize("json", serializers.serialize("json", [rows.call("prepared")]))
    assert bytes(call.object.action_digest) == rows.DIGEST  # type: ignore[attr-defined]
    assert call.object.result is None  # type: ignore[attr-defined]
