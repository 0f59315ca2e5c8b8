"""SQLite under the load of one machine: workers and web writing at the same time (B18)."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from cayu_runtime.models import Event, Session
from tests.faults.deployment import Deployment, until
from tests.faults.load import Person, Web, open_office

pytestmark = [pytest.mark.sqlite, pytest.mark.timeout(120)]

WRITERS, EACH = 4, 50


def test_four_workers_and_the_web_write_two_hundred_times_each_and_nobody_finds_it_locked(
    deployment: Deployment, web: Web
):
    """B18."""
    supervisor = deployment.supervise(workers=4)
    open_office(deployment.tenant)

    def write() -> list[int]:
        with closing(Person(web, "requester")) as person:
            person.sign_in()
            form = {"agent": "open", "text": json.dumps([[("look", "go")]])}
            return [person.post("/start/", {**form, "session_id": f"s-{uuid.uuid4()}"}) for _ in range(EACH)]

    supervisor.until_ready(4)
    web.until_live()
    with ThreadPoolExecutor(WRITERS) as pool:
        for writer in [pool.submit(write) for _ in range(WRITERS)]:
            assert writer.result() == [302] * EACH
    total = WRITERS * EACH
    until("all are done", lambda: Session.objects.filter(state="completed").count() == total, 60)
    assert len({line["session"] for line in deployment.journal()}) == len(deployment.journal()) == total
    assert Event.objects.filter(type="model.completed").count() == 2 * total
    assert {line["pid"] for line in deployment.journal()} == {one.worker for one in supervisor.clusters()}
    assert supervisor.end() == 0
    assert "locked" not in supervisor.log.read_text() + web.log.read_text()
