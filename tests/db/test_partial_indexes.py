"""What the sweep and the queues ask for is found by the indexes that were made for it, on SQLite too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from cayu_runtime.core.ids import new_id
from cayu_runtime.core.lease import due
from cayu_runtime.core.states import ENDED_SESSION
from cayu_runtime.models import Approval, Session
from tests.rows import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

OTHER_ID = new_id()
ASKED: dict[str, tuple[Callable[[], QuerySet[Any]], tuple[str, ...]]] = {
    "runnable or dead": (
        lambda: Session.objects.filter(due(NOW)).order_by(Coalesce("runnable_at", "lease_until")),
        ("session_runnable", "session_leased"),
    ),
    "to expire": (
        lambda: Approval.objects.filter(state__in=("pending", "approved"), expires_at__lte=NOW).order_by("expires_at"),
        ("approval_due",),
    ),
    "sessions that have not ended": (
        lambda: Session.objects.filter(tenant=OTHER_ID).exclude(state__in=ENDED_SESSION).values("pk")[:5],
        ("session_open",),
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_it_is_searched_by_its_partial_index_and_no_table_is_read_whole(what: str) -> None:
    made, indexes = ASKED[what]
    plan = made().explain()
    assert "SCAN" not in plan
    for index in indexes:
        assert index in plan


def test_a_state_with_a_quote_is_a_value_and_never_part_of_the_statement() -> None:
    asked = Session.objects.filter(state__in=["pending", "x') OR 1=1 --"])
    sql, values = asked.query.sql_with_params()
    assert "OR 1=1" not in sql
    assert "x') OR 1=1 --" in values
    assert list(asked) == []


def test_no_state_at_all_finds_nothing() -> None:
    assert list(Session.objects.filter(state__in=[])) == []
