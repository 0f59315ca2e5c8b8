"""What comes from a set has one order: in arguments, in the schema's defaults, in a policy's parameters (A18)."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, Field, RootModel

from cayu_runtime import PolicyIdentity, ToolEffect, tool
from cayu_runtime.core.judgement import action_digests, policy_digest, schema_digest
from tests.unit.judging import judged

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
SORTED = sorted(WORDS)


class Tags(RootModel[set[str]]):
    pass


class Label(BaseModel, frozen=True):
    word: str


class Group(BaseModel):
    names: frozenset[str] = Field(alias="Names")


class Pair(NamedTuple):
    one: str
    some: frozenset[str]


@dataclass
class Kept:
    some: set[str]


@tool(effect=ToolEffect.EXTERNAL)
def tag(
    names: set[str],
    groups: dict[str, list[Group]],
    sets: frozenset[frozenset[str]],
    labels: set[Label],
    pair: Pair,
    kept: Kept,
    tags: Tags,
    fixed: list[str],
    by_default: frozenset[str] = frozenset(WORDS),
) -> str:
    return ""


ASKED: dict[str, Any] = {
    "names": WORDS,
    "groups": {"g": [{"Names": WORDS}]},
    "sets": [WORDS, ["b", "a"]],
    "labels": [{"word": word} for word in WORDS],
    "pair": ["x", WORDS],
    "kept": {"some": WORDS},
    "tags": WORDS,
    "fixed": WORDS,
}


def digests() -> list[str]:
    answer = judged(tag, ASKED)
    assert not answer.problem
    action, _ = action_digests("t", "tag", "1", "external", answer.arguments, "", "op")
    identity = PolicyIdentity("p", "1", {"tools": frozenset(WORDS), "more": [{"x": set(WORDS)}]})
    return [action.hex(), schema_digest(tag).hex(), policy_digest(identity).hex()]


def test_each_place_where_a_set_may_stand_is_sorted_and_a_list_is_not() -> None:
    assert judged(tag, ASKED).arguments == {
        "names": SORTED,
        "groups": {"g": [{"Names": SORTED}]},
        "sets": [["a", "b"], SORTED],
        "labels": [{"word": word} for word in SORTED],
        "pair": ["x", SORTED],
        "kept": {"some": SORTED},
        "tags": SORTED,
        "fixed": WORDS,
        "by_default": SORTED,
    }
    assert tag.schema["properties"]["by_default"]["default"] == SORTED


@pytest.mark.parametrize("mixed", [{1, 2, 30}, {1.5, 2}], ids=["integers", "numbers"])
def test_a_set_of_numbers_has_one_order_too(mixed: set[Any]) -> None:
    @tool(effect=ToolEffect.EXTERNAL)
    def count(some: set[float | int]) -> str:
        return ""

    first = judged(count, {"some": list(mixed)}).arguments
    assert judged(count, {"some": list(reversed(list(mixed)))}).arguments == first


def test_every_process_makes_the_same_digests() -> None:
    code = "import django; django.setup(); from tests.unit.test_one_order import digests; print(*digests(), sep='\\n')"

    def made(seed: int) -> list[str]:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.split()

    assert made(1) == made(2) == made(3) == digests()
