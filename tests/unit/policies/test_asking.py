"""A part that isn't async is never asked inside an event loop; beside async parts it answers as it would alone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cayu_runtime import PolicyRequest, PolicyResult
from cayu_runtime.core import judgement
from cayu_runtime.policies import ByEnvironment, ByTool, Guarded, Strictest
from cayu_runtime.policies.asking import MOST_SECONDS, outside_loop, thread_ends
from tests.unit.policies.asked import ALLOW, ASK, DENY, Part, answer_of, later, never, raises, request

OK, NO = PolicyResult(ALLOW), PolicyResult(DENY, "no")
ASKED = request(environment="here")
Build = Callable[[bool, bool], Any]


def outside(says: Any) -> Callable[[PolicyRequest], Any]:
    """A part as one that reads the database: it can't be asked where a loop runs."""

    def say(asked: PolicyRequest) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return says(asked) if callable(says) else says
        raise AssertionError("asked inside an event loop")

    return say


def leaf(says: Any, slow: bool) -> Build:
    """Async in the composition as it is, if it is drawn so; otherwise, and in its twin, not."""
    return lambda guard, mixed: Part((later if slow and mixed else outside)(None if guard and says is OK else says))


def inside(children: list[Build], kind: str) -> Build:
    def build(guard: bool, mixed: bool) -> Any:
        built = [child(False, mixed) for child in children]
        if kind == "guarded":
            policy: Any = Guarded(tuple(child(True, mixed) for child in children[:-1]) or (Part(None),), built[-1])
        elif kind == "strictest":
            policy = Strictest((*built, built[0]))
        else:
            policy = ByTool({"refund": built[0]}) if kind == "by_tool" else ByEnvironment({"here": built[0]})
        return Part(lambda asked: None if answer_of(policy, asked) == OK else NO) if guard else policy

    return build


says = st.sampled_from([OK, PolicyResult(ASK, "a", 60, True), PolicyResult(ASK, "b", None, False), NO, raises, "allow"])
kinds = st.sampled_from(["guarded", "strictest", "by_tool", "by_environment"])
compositions = st.builds(
    inside,
    st.lists(
        st.recursive(
            st.builds(leaf, says, st.booleans()),
            lambda inner: st.builds(inside, st.lists(inner, min_size=1, max_size=3), kinds),
            max_leaves=6,
        ),
        min_size=1,
        max_size=3,
    ),
    kinds,
)


async def _inside_a_loop(policy: Any) -> PolicyResult:
    answer = policy.authorize(ASKED)
    result = answer if isinstance(answer, PolicyResult) else await answer
    assert isinstance(result, PolicyResult)
    return result


@settings(max_examples=150, deadline=None)
@given(compositions)
def test_async_parts_change_no_answer(build: Build) -> None:
    alone = build(False, False).authorize(ASKED)
    assert isinstance(alone, PolicyResult)
    assert build(False, True).authorize(ASKED) == alone


@settings(max_examples=30, deadline=None)
@given(compositions)
def test_asked_inside_a_loop_the_answer_is_the_same(build: Build) -> None:
    assert asyncio.run(_inside_a_loop(build(False, True))) == build(False, False).authorize(ASKED)


def test_the_machine_gets_the_answer_of_a_part_that_reads_beside_an_async_one() -> None:
    policy = Guarded((Part(later(None)), Part(outside(None))), Strictest((Part(later(OK)), Part(outside(OK)))))
    assert policy.authorize(ASKED) == OK


# ---- the time bound ----


@pytest.mark.parametrize(
    "wrap",
    [
        lambda part: Guarded((Part(None),), part, seconds=0.05),
        lambda part: Guarded((Part(later(None)),), part, seconds=0.05),
        lambda part: Strictest((Part(later(OK)), part), seconds=0.05),
        lambda part: ByTool({"*": part}, seconds=0.05),
        lambda part: ByEnvironment({"here": part}, seconds=0.05),
    ],
    ids=["guarded", "behind_async", "strictest", "by_tool", "by_environment"],
)
def test_a_composition_bounds_what_is_async_deep_inside_it(wrap: Any) -> None:
    began = time.monotonic()
    answer = answer_of(wrap(Strictest((Part(OK), ByTool({"*": Part(never)}, seconds=60)), seconds=60)), ASKED)
    assert answer.decision is DENY
    assert "TimeoutError" in answer.reason
    assert time.monotonic() - began < 10


def test_async_parts_share_the_bound_of_the_outermost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_SECONDS == judgement.POLICY_SECONDS
    monkeypatch.setattr("cayu_runtime.policies.asking.MOST_SECONDS", 0.2)
    began = time.monotonic()
    assert answer_of(Strictest((Part(never),) * 200)).decision is DENY
    assert time.monotonic() - began < 20, "one after another they would take 40 s"


def test_a_bound_ends_with_its_composition() -> None:
    short, long = ByTool({"*": Part(never)}, seconds=0.001), Part(later(OK))
    assert answer_of(Strictest((short, long))).decision is DENY
    assert answer_of(ByTool({"*": long})) == OK


# ---- the other thread ----

seen_by: ContextVar[str] = ContextVar("seen_by", default="")


def test_in_a_loop_a_composition_is_asked_in_another_thread_which_is_told_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places: list[Any] = []
    monkeypatch.setattr("cayu_runtime.policies.asking.thread_ends", [lambda: places.append(threading.get_ident())])
    seen_by.set("alice")

    def look(asked: PolicyRequest) -> PolicyResult:
        places.extend((threading.get_ident(), seen_by.get()))
        return OK

    assert asyncio.run(_inside_a_loop(ByTool({"*": Part(look)}))) == OK
    thread, context, ended = places
    assert (context, ended) == ("alice", thread)
    assert thread != threading.get_ident()
    places.clear()
    assert ByTool({"*": Part(look)}).authorize(ASKED) == OK
    assert places == [threading.get_ident(), "alice"], "no thread, no end"


def test_a_thread_is_told_its_end_whatever_was_raised_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr("cayu_runtime.policies.asking.thread_ends", [lambda: ended.append(True)])

    def fail() -> PolicyResult:
        raise LookupError

    async def ask() -> None:
        answer = outside_loop(fail)
        assert not isinstance(answer, PolicyResult)
        await answer

    with pytest.raises(LookupError):
        asyncio.run(ask())
    assert ended == [True]


def test_the_runtime_closes_its_connections_at_a_threads_end() -> None:
    from django.db import connections

    assert thread_ends == [connections.close_all]
