"""The clock of a transition is read after its lock: who waited an hour must not judge by the hour before."""

from __future__ import annotations

from datetime import datetime

import pytest

from cayu_runtime.core import clock
from cayu_runtime.core.transitions import transition
from cayu_runtime.errors import LostRace
from tests.machine import Counter, Machine, agent_of
from tests.race.rivals import race

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("rolls_back", [False, True], ids=["holder commits", "holder rolls back"])
def test_a_waiting_transition_reads_the_clock_after_the_holder_is_gone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, rolls_back: bool
) -> None:
    session = machine.start(agent_of(Counter()), run=False)

    def holder() -> datetime:
        try:
            with transition(session.pk) as change:
                change.set(steps=change.session.steps + 1)
                change.commit()  # the race holds it here until the other is seen to wait
                held_until = clock.now()
                if rolls_back:
                    raise LostRace("Not this time.")
        except LostRace:
            pass
        return held_until

    def waiter() -> tuple[datetime, int]:
        with transition(session.pk) as change:
            return change.now, change.session.steps

    held_until, (began, steps) = race(monkeypatch, holder, waiter)
    assert began >= held_until
    assert steps == (0 if rolls_back else 1)
