"""SQLite under the load of one machine: workers and web writing at the same time (B18)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from cayu_runtime.models import Event, Session
from tests.faults.deployment import Deployment, until

pytestmark = [pytest.mark.sqlite, pytest.mark.timeout(120)]

WRITERS, EACH = 4, 50


def test_four_workers_and_the_web_write_two_hundred_times_each_and_nobody_finds_it_locked(deployment: Deployment):
    supervisor = deployment.supervise(workers=4)

    def web() -> None:
        try:
            for _ in range(EACH):
                deployment.start([("look", "go")])
        finally:
            connections.close_all()

    supervisor.until_ready(4)
    with ThreadPoolExecutor(WRITERS) as pool:
        for writer in [pool.submit(web) for _ in range(WRITERS)]:
            writer.result()
    total = WRITERS * EACH
    until("all are done", lambda: Session.objects.filter(state="completed").count() == total, 60)
    assert len({line["session"] for line in deployment.journal()}) == len(deployment.journal()) == total
    assert Event.objects.filter(type="model.completed").count() == 2 * total
    assert {line["pid"] for line in deployment.journal()} == {one.worker for one in supervisor.clusters()}
    assert supervisor.end() == 0
    assert "locked" not in supervisor.log.read_text()
