"""What came of running a tool, classified once: done, not done, or nobody can tell (DESIGN §4)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cayu_runtime import EffectNotPerformed, ToolContext, ToolResult, tool
from cayu_runtime.core import points
from cayu_runtime.core.perform import Ambiguous, Done, NotDone, perform
from tests.unit.performing import CTX, KEY, Does, DoesLater, evidence_of, outcome_of, raising

either = pytest.mark.parametrize("kind", [Does, DoesLater], ids=["sync", "async"])


# ---- returning is a definite statement ----


@either
def test_a_valid_result_is_done(kind: type[Does]) -> None:
    result = ToolResult("done", {"id": 7}, ({"name": "a"},))
    assert outcome_of(result, kind=kind) == Done(result)


@either
def test_a_result_that_says_error_is_not_done(kind: type[Does]) -> None:
    result = ToolResult("no such order", is_error=True)
    assert outcome_of(result, kind=kind) == NotDone(result)


@either
@pytest.mark.parametrize("words, said", [("Never sent.", "Never sent."), ("", "The tool did not act.")])
def test_effect_not_performed_is_not_done(kind: type[Does], words: str, said: str) -> None:
    assert outcome_of(raising(EffectNotPerformed(words)), kind=kind) == NotDone(ToolResult(said, is_error=True))


def test_a_function_tool_runs_with_its_context_and_its_types() -> None:
    @tool()
    def refund(ctx: ToolContext, order: str, amount: float) -> dict[str, Any]:
        return {"order": order, "amount": amount, "key": ctx.idempotency_key}

    outcome = perform(refund, CTX, refund.coerce({"order": "1042", "amount": "25.5"}))
    assert outcome == Done(ToolResult(structured={"order": "1042", "amount": 25.5, "key": KEY}))


def test_an_async_function_tool_runs() -> None:
    @tool()
    async def refund(order: str) -> str:
        await asyncio.sleep(0)
        return f"refunded {order}"

    assert perform(refund, CTX, {"order": "1042"}) == Done(ToolResult("refunded 1042"))


def test_a_result_of_a_subclass_is_a_result() -> None:
    class Refunded(ToolResult):
        pass

    assert isinstance(outcome_of(Refunded("done")), Done)


# ---- what is no valid result: nobody can tell ----


class OddResult(ToolResult):
    """A result whose fields are what the test says."""

    def __init__(self, **fields: Any) -> None:
        for name in ("content", "structured", "artifacts", "is_error"):
            default = {"content": "", "structured": None, "artifacts": (), "is_error": False}[name]
            object.__setattr__(self, name, fields.get(name, default))


@either
@pytest.mark.parametrize(
    "answer, said",
    [
        (None, "The tool returned a NoneType, not a ToolResult."),
        ("a secret text", "The tool returned a str, not a ToolResult."),
        ({"a": "secret"}, "The tool returned a dict, not a ToolResult."),
        (True, "The tool returned a bool, not a ToolResult."),
        (ToolResult, "The tool returned a type, not a ToolResult."),
        (ValueError("a secret"), "The tool returned a ValueError, not a ToolResult."),
        (OddResult(content=b"secret"), "ToolResult.content is not a string."),
        (OddResult(content=None), "ToolResult.content is not a string."),
        (OddResult(structured=["secret"]), "ToolResult.structured is not an object."),
        (OddResult(structured="secret"), "ToolResult.structured is not an object."),
        (OddResult(is_error=None), "ToolResult.is_error is not a boolean."),
        (OddResult(is_error="no"), "ToolResult.is_error is not a boolean."),
        (OddResult(artifacts={"secret": 1}), "ToolResult.artifacts is not a list."),
        (OddResult(artifacts="secret"), "ToolResult.artifacts is not a list."),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_result_is_ambiguous_and_its_content_is_not_kept(kind: type[Does], answer: Any, said: str) -> None:
    outcome = outcome_of(lambda ctx, args: answer, kind=kind)
    assert outcome == Ambiguous("invalid_result", {"classification": "invalid_result", "message": said})
    assert "secret" not in str(outcome)


def test_a_generator_is_no_result() -> None:
    def sync_steps(ctx: ToolContext, args: dict[str, Any]) -> Iterator[str]:
        yield "secret"

    async def async_steps(ctx: ToolContext, args: dict[str, Any]) -> Any:
        yield "secret"

    for steps in (sync_steps, async_steps):
        assert evidence_of(steps)["classification"] == "invalid_result"


# ---- raising: nobody can tell ----


class Custom(Exception):
    pass


@either
@pytest.mark.parametrize(
    "error, classification",
    [
        (ValueError("broken pipe"), "raised"),
        (Custom("broken pipe"), "raised"),
        (ConnectionResetError("broken pipe"), "raised"),
        (TimeoutError("broken pipe"), "timeout"),
        (SystemExit("broken pipe"), "raised"),
        (KeyboardInterrupt("broken pipe"), "raised"),
        (GeneratorExit("broken pipe"), "raised"),
        (asyncio.CancelledError("broken pipe"), "raised"),
        (RecursionError("broken pipe"), "raised"),
        (MemoryError("broken pipe"), "raised"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_raised_is_ambiguous(kind: type[Does], error: BaseException, classification: str) -> None:
    outcome = outcome_of(raising(error), kind=kind)
    assert isinstance(outcome, Ambiguous)
    assert outcome.classification == outcome.evidence["classification"] == classification
    assert outcome.evidence["exceptions"][0] == type(error).__name__
    assert outcome.evidence["message"] == outcome.summary == "broken pipe"


def test_the_types_of_the_causes_are_kept_at_most_five() -> None:
    def fail(ctx: ToolContext, args: dict[str, Any]) -> Any:
        try:
            raise ConnectionResetError
        except ConnectionResetError as error:
            raise Custom("outer") from error

    assert evidence_of(fail)["exceptions"] == ["Custom", "ConnectionResetError"]

    long = error = ValueError("0")
    for n in range(1, 20):
        error.__cause__ = error = ValueError(str(n))
    assert evidence_of(raising(long))["exceptions"] == ["ValueError"] * 5


def test_causes_in_a_circle_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert len(evidence_of(raising(first))["exceptions"]) <= 5


class NoWords(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class NotPerformedWithoutWords(EffectNotPerformed):
    __str__ = NoWords.__str__


def test_an_exception_that_cannot_be_written_is_ambiguous() -> None:
    assert evidence_of(raising(NoWords()))["exceptions"] == ["NoWords"]


def test_a_statement_of_not_acting_counts_without_words() -> None:
    assert isinstance(outcome_of(raising(NotPerformedWithoutWords())), NotDone)


# ---- time ----


def test_a_tool_without_time_never_starts() -> None:
    def never(ctx: ToolContext, args: dict[str, Any]) -> Any:
        raise AssertionError

    for seconds in (0, -1, -1e9):
        outcome = outcome_of(never, seconds=seconds)
        assert isinstance(outcome, NotDone)
        assert outcome.result.content == "The deadline was over before the tool could start."


def test_a_process_that_was_stopped_before_its_tool_does_not_begin_it_late(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(points, "listener", lambda side: time.sleep(0.06))
    outcome = outcome_of(lambda ctx, args: seen.append("ran"), seconds=0.05)
    assert isinstance(outcome, NotDone)
    assert (outcome.begun, seen) == (False, [])


def test_time_that_passed_since_the_dispatch_was_recorded_counts() -> None:
    seen: list[str] = []
    late = Does(lambda ctx, args: seen.append("ran"))
    outcome = perform(late, CTX, {}, None, time.monotonic() - 0.01)
    assert isinstance(outcome, NotDone)
    assert seen == []


@pytest.mark.parametrize("kind", ["sync", "async", "async that holds the loop", "async that will not be cancelled"])
def test_a_tool_past_its_deadline_is_left_behind_as_a_timeout(kind: str) -> None:
    release = threading.Event()

    async def patient() -> Any:
        if kind == "async that holds the loop":
            release.wait(10)
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            if kind == "async that will not be cancelled":
                release.wait(10)
            raise

    def sync() -> Any:
        release.wait(10)
        return ToolResult("too late")

    began = time.monotonic()
    outcome = outcome_of(lambda ctx, args: sync() if kind == "sync" else patient(), seconds=0.2)
    assert time.monotonic() - began < 5
    release.set()
    assert isinstance(outcome, Ambiguous)
    assert outcome.classification == "timeout"
    assert outcome.evidence["classification"] == "timeout"


def test_what_a_tool_returns_after_its_deadline_changes_nothing() -> None:
    release, ended = threading.Event(), threading.Event()

    def slow(ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        release.wait(10)
        ended.set()
        return ToolResult("too late")

    outcome = outcome_of(slow, seconds=0.05)
    release.set()
    assert ended.wait(10)
    assert outcome == Ambiguous("timeout", {"classification": "timeout", "seconds": 0.05})


# ---- where it runs ----


def test_a_tool_runs_in_a_thread_of_its_own_that_is_named_after_it() -> None:
    seen: list[threading.Thread] = []
    outcome_of(lambda ctx, args: seen.append(threading.current_thread()))
    assert seen[0] is not threading.main_thread()
    assert (seen[0].name, seen[0].daemon) == ("tool-does", True)


def test_a_tool_sees_the_context_variables_of_its_caller_and_cannot_change_them() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("ours")
    seen: list[str] = []

    def look(ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        seen.append(variable.get())
        variable.set("theirs")
        return ToolResult()

    outcome_of(look)
    outcome_of(look, kind=DoesLater)
    assert seen == ["ours", "ours"]
    assert variable.get() == "ours"


def test_a_tool_cannot_change_the_reviewed_arguments() -> None:
    """The one replay of an IDEMPOTENT call must run with the same ones."""
    arguments = {"order": "1042", "lines": [{"n": 1}]}

    def spoil(ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        args["order"] = "1043"
        args["lines"][0]["n"] = 2
        return ToolResult()

    outcome_of(spoil, arguments)
    assert arguments == {"order": "1042", "lines": [{"n": 1}]}
