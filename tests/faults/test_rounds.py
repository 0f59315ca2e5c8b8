"""One round of what `python -m tests.faults.rounds` does twenty times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import environment_of_children
from tests.faults.killing import killing


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("transactional_db", "everybody_may")
def test_everything_is_killed_once_under_load_and_every_session_ends_right(tmp_path: Path) -> None:
    with killing(tmp_path, environment_of_children(), seed=1) as it:
        it.round()
        it.settle()
    assert it.tally.wrong == []  # how long it took depends on what else runs here: the command judges that
    assert it.tally.kills.total() == 5
    assert it.tally.counts["sessions completed"] >= 5
