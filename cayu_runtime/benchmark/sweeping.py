"""One sweep among very many sessions that are over, when a hundred wait whose wake-ups were lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from statistics import median

from django.db import models
from django.db.models import F
from django_q.models import OrmQ

from ..models import Approval, EffectRecord, Session, ToolRound
from ..worker.sweep import Sweep
from .copying import Changed, copy, own_id
from .lifecycle import Engine, People, people, run_lifecycle, start

STUCK = 100
TIMES = 15
# Ids below are those of the queue's copies.
FIRST = 10_000_000


def sweep(engine: Engine, sizes: Sequence[int]) -> Callable[[], dict[str, float]]:
    """Milliseconds of a whole sweep that rings for STUCK sessions, among so many that are completed, for each size."""
    who = people(engine)
    over = run_lifecycle(who)
    _stick(who)

    def run() -> dict[str, float]:
        found, there = {}, 0
        for size in sizes:
            _finish(over, there, size)
            found[str(size)], there = median(_swept() for _ in range(TIMES)), size
        return found

    return run


def _stick(who: People) -> None:
    made = [start(who).pk for _ in range(STUCK)]
    Session.objects.filter(state="pending").exclude(pk__in=made).update(runnable_at=F("runnable_at") + timedelta(365))
    Session.objects.filter(pk__in=made).update(runnable_at=F("runnable_at") - timedelta(hours=1))


def _swept() -> float:
    OrmQ.objects.all().delete()
    began = time.perf_counter()
    _, rung = Sweep().once()
    lasted = (time.perf_counter() - began) * 1000
    assert rung == STUCK, f"The sweep rang for {rung} sessions; {STUCK} were stuck."
    return lasted


def _finish(session: Session, there: int, size: int) -> None:
    """So many completed sessions, each with the round, call, effect and approval that a real one has left."""
    session.refresh_from_db()
    approval = Approval.objects.select_related("call").get(session=session)
    effect = EffectRecord.objects.get(call=approval.call_id)
    own = {"id": own_id(), "session": own_id()}
    operation = {"operation_id": "'over-' || n"}
    rows: list[tuple[models.Model, Changed]] = [
        (session, {"id": own_id(), "session_id": "'over-' || n"}),
        (ToolRound.objects.get(pk=approval.call.round_id), own),
        (approval.call, {**own, **operation, "round": own_id()}),
        (effect, {**own, **operation, "call": own_id(), "dispatch_id": own_id()}),
        (approval, {**own, "call": own_id()}),
    ]
    copy(rows, FIRST + there, FIRST + size - 1)
