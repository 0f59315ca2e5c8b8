"""What a reconciler and a verifier may say: nothing that contradicts itself, nothing without a bound."""

from __future__ import annotations

from typing import Any

import pytest

from cayu_runtime import (
    Finding,
    Inquiry,
    MissingResource,
    Observation,
    Reconciler,
    Tool,
    ToolEffect,
    ToolResult,
    Verdict,
    Verification,
    Verifier,
    tool,
)

DONE = ToolResult("done")
ASKED = Inquiry("op", "key", "d1", "t1", "s-1", "refund", "1", {})


@pytest.mark.parametrize("finding", Finding)
def test_only_a_confirmed_finding_carries_a_result(finding: Finding) -> None:
    if finding is Finding.CONFIRMED_DONE:
        assert Observation(finding, result=DONE).result == DONE
        with pytest.raises(ValueError, match="needs the ToolResult"):
            Observation(finding)
        with pytest.raises(ValueError, match="needs the ToolResult"):
            Observation(finding, result=ToolResult("no", is_error=True))
        return
    assert Observation(finding).result is None
    if finding is Finding.CONFIRMED_REFUSED:
        assert Observation(finding, result=DONE).result == DONE
    else:
        with pytest.raises(ValueError, match="nothing definite"):
            Observation(finding, result=DONE)


@pytest.mark.parametrize("finding", Finding)
def test_only_an_absence_can_be_barred(finding: Finding) -> None:
    result = DONE if finding is Finding.CONFIRMED_DONE else None
    if finding is Finding.ABSENT:
        assert Observation(finding, barred=True).barred
    else:
        with pytest.raises(ValueError, match="barred"):
            Observation(finding, result=result, barred=True)


WRONG: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"finding": "absent"}, TypeError),
    ({"finding": None}, TypeError),
    ({"message": "x" * 1001}, ValueError),
    ({"message": None}, ValueError),
    ({"barred": 1}, ValueError),
    ({"result": "done"}, TypeError),
    ({"evidence": {"a": object()}}, TypeError),
    ({"evidence": {"a": float("nan")}}, TypeError),
    ({"evidence": None}, TypeError),
    ({"evidence": {"a": "x" * 65536}}, ValueError),
    ({"resource_versions": ["a"]}, TypeError),
    ({"resource_versions": (1,)}, TypeError),
    ({"resource_versions": ("x" * 201,)}, TypeError),
    ({"resource_versions": ("a",) * 33}, ValueError),
]


@pytest.mark.parametrize("fields, error", WRONG, ids=lambda value: str(value)[:40])
def test_what_passes_a_limit_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"\.$"):
        Observation(**{"finding": Finding.ABSENT, **fields})


def test_what_just_fits_is_kept() -> None:
    evidence = {"a": "x" * (64 * 1024 - len('{"a": ""}'))}
    kept = Observation(Finding.ABSENT, "x" * 1000, evidence=evidence, resource_versions=("v" * 200,) * 32)
    assert kept.evidence == evidence


@pytest.mark.parametrize("fields", [{"verdict": "passed"}, {"message": 1}, {"evidence": {"a": {1}}}], ids=str)
def test_a_verification_is_held_to_the_same(fields: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"\.$"):
        Verification(**{"verdict": Verdict.PASSED, **fields})


def test_a_reconciler_that_implements_nothing_supports_nothing() -> None:
    assert Reconciler().lookup(ASKED).finding is Finding.UNSUPPORTED
    assert Reconciler().validate_receipt({"receipt_id": "r1"}, ASKED).finding is Finding.UNSUPPORTED
    with pytest.raises(NotImplementedError, match="verify"):
        Verifier().verify(ASKED)


def test_a_resource_that_is_absent_is_said() -> None:
    with pytest.raises(MissingResource, match="'ledger'"):
        ASKED.require("ledger")


def test_an_inquiry_shows_neither_key_nor_contents() -> None:
    asked = Inquiry("op", "the-key", "d1", "t1", "s-1", "refund", "1", {"iban": "DE00"}, resources={"token": "t0p"})
    assert not [secret for secret in ("the-key", "DE00", "t0p") if secret in repr(asked)]


def test_a_tool_carries_both_as_attributes() -> None:
    reconciler, verifier = Reconciler(), Verifier()

    class ByClass(Tool):
        pass

    assert (ByClass.reconciler, ByClass.verifier) == (None, None)
    made = tool(name="pay", effect=ToolEffect.EXTERNAL, reconciler=reconciler, verifier=verifier)(lambda: "")
    assert (made.reconciler, made.verifier) == (reconciler, verifier)
