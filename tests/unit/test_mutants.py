"""Each mutant can be made: its guard stands exactly once in the source, and its tests exist."""

from __future__ import annotations

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_guard_stands_once_and_its_tests_exist(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.guard) == 1
    assert all((ROOT / test.partition("::")[0]).exists() for test in mutant.tests)
