"""The approval queue with very many waiting: its selector, and the whole page as a signed-in approver gets it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from django.contrib.auth import get_user_model
from django.db import models
from django.test import Client

from ..models import Approval, EffectRecord, Session, ToolRound
from ..selectors.approval import PAGE, waiting
from .copying import Changed, copy, moved, own_id
from .lifecycle import Engine, People, people, start, wake
from .recorder import recording

TIMES = 31


def queue(engine: Engine, sizes: Sequence[int]) -> Callable[[], dict[str, Any]]:
    """Milliseconds of the first page of 50 by selector and by HTTP, and the page's queries, for each number waiting."""
    who = people(engine)
    session = start(who)
    wake(who, session)

    def run() -> dict[str, Any]:
        return {str(size): _measured(who, session, size) for size in sizes}

    return run


def _measured(who: People, session: Session, size: int) -> dict[str, float]:
    _fill(session, size)
    client = Client(SERVER_NAME="localhost")
    client.force_login(get_user_model().objects.get(username=who.approver.name))
    rows = waiting(who.tenant)
    assert len(rows) == min(PAGE, size), f"{len(rows)} rows are on the first page."
    with recording() as record:
        assert client.get("/").status_code == 200
    return {
        "selector_ms": _ms(lambda: waiting(who.tenant)),
        "page_ms": _ms(lambda: client.get("/")),
        "page_queries": record.statements,
    }


def _ms(work: Callable[[], Any]) -> float:
    lasted = []
    for _ in range(TIMES):
        began = time.perf_counter()
        work()
        lasted.append((time.perf_counter() - began) * 1000)
    return median(lasted)


def _fill(session: Session, size: int) -> None:
    """As many waiting sessions as `size` says: copies, in SQL, of one that really waits, each with rows of its own."""
    there = Approval.objects.filter(tenant=session.tenant_id, state="pending").count()
    approval = Approval.objects.select_related("call__proposal").get(session=session)
    assert approval.call.proposal is not None  # the reference lifecycle's action is a reviewed one
    effect = EffectRecord.objects.get(call=approval.call_id)
    own = {"id": own_id(), "session": own_id()}
    operation = {"operation_id": "'waiting-' || n"}
    rows: list[tuple[models.Model, Changed]] = [
        (session, {"id": own_id(), "session_id": "'waiting-' || n"}),
        (ToolRound.objects.get(pk=approval.call.round_id), own),
        (approval.call.proposal, {**own, "action_id": "'waiting-' || n"}),
        (approval.call, {**own, **operation, "round": own_id(), "proposal": own_id()}),
        (effect, {**own, **operation, "call": own_id()}),
        (approval, {**own, "call": own_id(), "expires_at": moved("expires_at", "n")}),
    ]
    copy(rows, there, size - 1)
