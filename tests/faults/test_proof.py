"""The proof in small (docs/proof.md): 200 injections in process and 20 more, in two halves side by side; its points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.points import COMMITS, POINTS, TOOL, found

ROOT = Path(__file__).parent.parent.parent
SEED = 7


def proof(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.proof", "--seed", str(SEED), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=170)


@pytest.mark.postgres
@pytest.mark.timeout(180)
@pytest.mark.parametrize("half", [0, 110])
def test_nothing_that_breaks_makes_it_act_twice_or_lie(half: int) -> None:
    run = proof("--n", "110", "--from", str(half))
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert "110 injections" in run.stdout
    assert "100 in process" in run.stdout


@pytest.mark.postgres
@pytest.mark.timeout(180)
def test_a_seed_breaks_the_same_things_again() -> None:
    first, second = (proof("--n", "22", "--from", "2200", "--trace").stdout for _ in range(2))
    assert [line for line in first.splitlines() if "***" in line], first
    assert without_times(first) == without_times(second)


def without_times(printed: str) -> str:
    return printed.partition(" in process, ")[0]


def test_every_commit_and_every_run_of_a_tool_has_its_points() -> None:
    """A new transition is added to `tests/proof/points.py`, with its number, and `tests/proof/people.py` or another
    part of the schedules reaches it.
    """
    assert found() == {*COMMITS, TOOL}
    assert len(set(POINTS)) == len(POINTS) == 2 * len(found())
