"""Whatever people, workers, time and crashes do in whatever order, rows tell the truth (property test; CASES B7).

The deeds are those of tests/proof, the judge its oracle, which knows nothing of the machine; hypothesis looks for an
order that breaks it, and makes what it finds short.
"""

from __future__ import annotations

import random
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django_q.models import OrmQ
from hypothesis import HealthCheck, Phase
from hypothesis import settings as how_many
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from pytest_django.fixtures import Settings

from cayu_runtime.core import clock, engine, points
from cayu_runtime.errors import CayuError
from cayu_runtime.models import EffectRecord, Session, Worker
from cayu_runtime.services.tenant import create_tenant
from cayu_runtime.worker.sweep import Sweep
from tests.proof.agents import Scene, declare
from tests.proof.downstream import Downstream
from tests.proof.hands import Killed
from tests.proof.oracle import INWARD, Oracle
from tests.proof.people import Deed, People

BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)
LEAVES = ("stop", "abandon", "continue", "submit", "pause", "revoke")
CHANCES = st.randoms(use_true_random=False)


class History(RuleBasedStateMachine):
    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.left = -1
        self.lives = 0
        self.stack = ExitStack()
        points.listener = self._at_point

    @initialize(chance=CHANCES)
    def begin(self, chance: random.Random) -> None:
        downstream = Downstream(self.folder / f"{uuid4().hex}.sqlite3")
        downstream.create()
        self.scene = Scene(downstream)
        declare(self.scene)
        self.stack.enter_context(clock.standing(BEGINNING))
        tenant = create_tenant(f"t-{uuid4().hex[:12]}", "Test Ltd")
        self.people = People(tenant, self.scene, chance, uuid4().hex[:8])
        self.oracle = Oracle(tenant.id, downstream)
        OrmQ.objects.all().delete()
        self._do(self.people.start())

    def _at_point(self, side: str) -> None:
        """Whoever comes to the point that is due is killed there."""
        self.left -= 1
        if self.left == 0:
            raise Killed

    def _do(self, deed: Deed) -> None:
        done = False
        try:
            deed.work()
            done = True
        except (Killed, CayuError):
            pass
        if deed.decides:
            self.oracle.asked(deed.decides, done=done)

    def _run(self, session: UUID) -> None:
        """By a worker whose process is known to have ended afterwards."""
        self.lives += 1
        life = {"host": "worker", "pid": self.lives, "supervisor": 1, "tasks": 0, "leaving": False}
        now = clock.now()
        Worker.objects.create(**life, started_at=now, beat_at=now, ended_at=now)
        with suppress(Killed):
            engine.run_session(session, f"worker:{self.lives}")

    def _sessions(self) -> list[UUID]:
        return list(Session.objects.filter(tenant=self.people.tenant).order_by("id").values_list("id", flat=True))

    @rule(chance=CHANCES)
    def somebody_starts(self, chance: random.Random) -> None:
        self.people.chance = chance
        if self.people.started < 4:
            self._do(self.people.start())

    @rule(chance=CHANCES)
    def somebody_does_something(self, chance: random.Random) -> None:
        self.people.chance = chance
        if deeds := self.people.deeds():
            self._do(chance.choice(deeds))

    @rule(which=st.integers(0, 3))
    def a_worker_runs(self, which: int) -> None:
        sessions = self._sessions()
        self._run(sessions[which % len(sessions)])

    @rule(left=st.integers(1, 8))
    def the_next_is_killed(self, left: int) -> None:
        self.left = left

    @rule(seconds=st.sampled_from((0.5, 2.0, 40.0, 3601.0, 8000.0)))
    def time_passes(self, seconds: float) -> None:
        self.left = -1
        self.stack.enter_context(clock.shifted(timedelta(seconds=seconds)))
        Sweep().once()

    @invariant()
    def rows_tell_the_truth(self) -> None:
        if hasattr(self, "oracle"):
            assert self.oracle.look() == []

    def teardown(self) -> None:
        """People end everything, and then the downstream's counts are the rows' counts."""
        self.left = -1
        try:
            if hasattr(self, "oracle"):
                self.people.chance, self.people.willing = random.Random(0), 0.3
                for _ in range(40):
                    self._end_what_waits()
                    if self.oracle.is_over():
                        break
                assert self.oracle.counts() == []
        finally:
            points.listener = None
            self.stack.close()

    def _end_what_waits(self) -> None:
        self.scene.failing.clear()
        for deed in self.people.deeds():
            if deed.name not in LEAVES:
                self._do(deed)
        for effect in EffectRecord.objects.filter(tenant=self.people.tenant).select_related("session"):
            self._end_doubt(effect)
        self.stack.enter_context(clock.shifted(timedelta(seconds=200)))
        for session in self._sessions():
            self._run(session)
        assert self.oracle.look() == []

    def _end_doubt(self, effect: EffectRecord) -> None:
        if effect.state in ("outcome_unknown", "manual_review"):
            self._do(self.people.settle(effect, self.people.anybody(), surely=True))
            if effect.tool == INWARD and effect.session.state != "failed":
                self._do(self.people.abandon(effect.session))


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(240)
def test_rows_tell_the_truth_after_any_history(settings: Settings, tmp_path: Path) -> None:
    settings.CAYU_AUTHORITY = "tests.machine.Everybody"
    kind: Any = type("HistoryHere", (History,), {"folder": tmp_path})
    some = how_many(
        max_examples=12,
        stateful_step_count=25,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(kind, settings=some)
