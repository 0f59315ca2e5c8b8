"""Failure evidence: types and a masked message; no arguments, no credentials, no content of a result (DESIGN §4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from cayu_runtime.core.perform import MAX_EVIDENCE
from tests.unit.performing import KEY, evidence_of, raising

ARGUMENTS = {
    "order": "order-1042",
    "to": "Alice O'Neil <alice@example.com>",
    "number": 1042,
    "amount": 25.50,
    "small": 7,
    "short": "GBP",
    "lines": [{"sku": "blue shoes", "tags": ["rare"]}, "two\nlines"],
    "nul": "before\0after",
    "name": "Jürgen Müller",
}


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for entry in value.values():
            yield from leaves(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from leaves(entry)
    else:
        yield value


FORMS: dict[str, Callable[[Any], str]] = {
    "as it is": str,
    "in quotes": lambda value: repr(str(value)),
    "as JSON": json.dumps,
    "in a URL": lambda value: quote(str(value)),
}


@pytest.mark.parametrize(
    "form, value",
    [pytest.param(form, value, id=f"{value!r} {form}") for form in FORMS for value in leaves(ARGUMENTS)],
)
def test_no_argument_is_in_the_evidence(form: str, value: Any) -> None:
    written = FORMS[form](value)
    error = ValueError(f"could not send {written}, giving up")
    evidence = evidence_of(raising(error), ARGUMENTS)
    for part in written.strip("'\"").split("\\n"):
        assert part.replace("\0", "\\u0000") not in evidence["message"]
    assert evidence["message"].startswith("could not send")
    assert evidence["message"].endswith("giving up")


@pytest.mark.parametrize(
    "text, secret",
    [
        (f"key {KEY}", KEY),
        (f"https://ledger/refunds?key={KEY}&x=1", KEY),
        ("Bearer abc123def", "abc123def"),
        ("token=abc123def", "abc123def"),
        ("X-Api-Key: abc123def", "abc123def"),
        ("password = hunter2x", "hunter2x"),
        ("password='hunter2x'", "hunter2x"),
        ("https://host/?token=abc123def&x=1", "abc123def"),
        ("sent ghp_abcdefghij0123456789abcdefghij012345", "ghp_abcdefghij"),
        ("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4ifQ.x", "eyJzdWIi"),
        ("Authorization: Bearer s3cr3t-t0k3n", "s3cr3t-t0k3n"),
        ("authorization=Basic YWxhZGRpbjpvcGVu", "YWxhZGRpbjpvcGVu"),
        ("api_key=abc123def", "abc123def"),
        ("access_token: abc123def", "abc123def"),
        ("client_secret=abc123def", "abc123def"),
        ('{"password": "hunter2x"}', "hunter2x"),
        ("{'token': 'abc123def'}", "abc123def"),
        ("https://alice:hunter2x@ledger/refunds", "hunter2x"),
        ("Cookie: session=abc123def", "abc123def"),
        ("passwd=hunter2x", "hunter2x"),
    ],
)
def test_no_credential_is_in_the_evidence(text: str, secret: str) -> None:
    evidence = evidence_of(raising(ValueError(f"refused: {text} and more")))
    assert secret not in str(evidence)
    assert evidence["message"].startswith("refused: ")


def test_a_value_is_masked_wherever_a_long_message_is_cut() -> None:
    body, name = "b" * 40 + " x" * 4070, "Alice Liddell of Wonderland"
    message = evidence_of(raising(ValueError(body + name)), {"body": body, "name": name})["message"]
    assert "Alice" not in message


@pytest.mark.parametrize(
    "message", ["", "short", "x y " * 100_000, "ü€😀 " * 1000, "a\0b\ud800", "•" * 5000, "\n" * 5000]
)
def test_evidence_is_bounded_and_storable(message: str) -> None:
    evidence = evidence_of(raising(ValueError(message)), {"order": "1042"})
    text = json.dumps(evidence, ensure_ascii=False)
    assert len(text.encode()) <= MAX_EVIDENCE + 200
    assert len(evidence["message"].encode()) <= MAX_EVIDENCE
    assert "\0" not in text


def test_evidence_of_a_result_that_is_none_holds_nothing_of_it() -> None:
    assert evidence_of({"card": "4111 1111 1111 1111"}) == {
        "classification": "invalid_result", "message": "The tool returned a dict, not a ToolResult.",
    }  # fmt: skip
