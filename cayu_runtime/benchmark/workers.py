"""Lifecycles through a real `manage.py worker`: this process starts sessions and decides, as a web server does."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from statistics import quantiles
from typing import Any

from ..models import EffectRecord, Session
from .agents import APPLY
from .lifecycle import Engine, People, approve, approve_one, people, start, waiting_for

POLL_SECONDS = 0.01
PATIENCE_SECONDS = 60.0
WARM_UP = 2
MILLISECOND = timedelta(milliseconds=1)


def decisions(engine: Engine, times: int) -> Callable[[], dict[str, float]]:
    """Milliseconds from a decision to the dispatch of its call, both by the database's clock, one after another."""
    who = people(engine)

    def run() -> dict[str, float]:
        for _ in range(WARM_UP + times):
            session = start(who)
            _wait_for(session, "interrupted")
            approve(who, session)
            _wait_for(session, "completed")
        effects = EffectRecord.objects.filter(tenant=who.tenant, tool=APPLY.spec.name).order_by("created_at")
        rows = effects.values_list("dispatched_at", "call__approvals__decided_at")
        lasted = [(begun - decided) / MILLISECOND for begun, decided in rows if begun and decided][WARM_UP:]
        parts = quantiles(lasted, n=20, method="inclusive")
        return {"p50": parts[9], "p95": parts[18]}

    return run


def _wait_for(session: Session, state: str) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        now = Session.objects.values_list("state", flat=True).get(pk=session.pk)
        if now == state:
            return
        assert time.monotonic() < give_up, f"A session is {now} after {PATIENCE_SECONDS} s; it should be {state}."
        time.sleep(POLL_SECONDS)


def end_to_end(engine: Engine, sessions: int) -> Callable[[], dict[str, Any]]:
    """Lifecycles per second while all are under way: each is approved as soon as it asks."""
    who = people(engine)

    def run() -> dict[str, Any]:
        for _ in range(WARM_UP):
            start(who)
        _approve_until_all_completed(who)
        began = time.perf_counter()
        for _ in range(sessions):
            start(who)
        _approve_until_all_completed(who)
        return {"count": sessions, "made": sessions + WARM_UP, "seconds": time.perf_counter() - began}

    return run


def _approve_until_all_completed(who: People) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS * 5
    while Session.objects.filter(tenant=who.tenant).exclude(state="completed").exists():
        waiting = list(waiting_for(who)[:50])
        for approval in waiting:
            approve_one(who, *approval)
        assert time.monotonic() < give_up, "Sessions did not end."
        if not waiting:
            time.sleep(POLL_SECONDS)
