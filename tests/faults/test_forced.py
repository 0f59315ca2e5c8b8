"""Queue settings under which q2 ends or redelivers what runs: refused, and forced anyway still harmless (B12)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from cayu_runtime.core import doorbell
from tests.faults.deployment import Deployment, Supervisor, until

pytestmark = pytest.mark.timeout(120)

CARELESS = {"ack_failures": False, "max_attempts": 0, "queue_limit": 10, "bulk": 10}


def settings(**queue: Any) -> dict[str, str]:
    return {"DJANGO_SETTINGS_MODULE": "tests.faults_app.forced", "CAYU_FAULTS_QUEUE": json.dumps(queue)}


@contextmanager
def forced(deployment: Deployment, **queue: Any) -> Iterator[Supervisor]:
    """Workers that run under these settings, since somebody silenced the check."""
    supervisor = deployment.supervise(2, CAYU_FAULTS_SILENCED="cayu.E021", **settings(**CARELESS, **queue))
    supervisor.until_ready(2)
    yield supervisor
    assert supervisor.end() == 0


def test_a_start_under_such_settings_is_refused(deployment: Deployment):
    """B12."""
    supervisor = deployment.supervise(2, **settings(**CARELESS, timeout=60, retry=2))
    assert supervisor.process.wait(20) == 1
    said = supervisor.log.read_text()
    for name in ("ack_failures", "max_attempts", "queue_limit", "bulk", "timeout", "retry"):
        assert f"(cayu.E021) Q_CLUSTER['{name}']" in said
    assert not supervisor.said("worker.started")


def test_a_wakeup_that_is_delivered_again_while_its_tool_runs_runs_nothing(deployment: Deployment):
    """B12, forced: retry 2 s."""
    with forced(deployment, timeout=60, retry=2) as supervisor:
        session = deployment.approved([("pay", "hold again"), ("look", "go")])
        worker = deployment.until_begun(session)
        taken = OrmQ.objects.filter(lock__gt=timezone.now()).values_list("pk", "lock").first()
        assert taken, "the wake-up that runs is acknowledged at its end"
        until("it is delivered again", lambda: not OrmQ.objects.filter(pk=taken[0], lock=taken[1]).exists())
        doorbell.ring_all([session.pk] * 20)
        until("the other worker has answered all of them", lambda: not OrmQ.objects.exists())
        assert len(deployment.journal(session)) == 1
        deployment.release("again")
        deployment.until_state(session, "completed")
        paid, looked = deployment.journal(session)
        assert (paid["tool"], paid["pid"], looked["tool"]) == ("pay", worker, "look")
        assert deployment.effect(session).dispatches == 1
        assert not supervisor.said("cluster.lost")


def test_a_tool_that_the_queue_ends_is_lost_like_any_other_and_what_it_left_is_gone_after_retry(
    deployment: Deployment,
):
    """B12, forced: timeout 2 s, in the middle of a tool; and the wake-ups of clusters that died so."""
    with forced(deployment, timeout=2, retry=3) as supervisor:
        pay, label = (deployment.approved([(tool, "hold for-ever")]) for tool in ("pay", "label"))
        deployment.until_state(pay, "effect_outcome_unknown")
        deployment.until_state(label, "effect_outcome_unknown")
        assert supervisor.said("cluster.lost"), "q2 ended a worker"
        until("every wake-up is answered in the end", lambda: not OrmQ.objects.exists())
        assert [len(deployment.journal(session)) for session in (pay, label)] == [1, 2]
        assert deployment.effect(pay).dispatches == 1
        assert not deployment.journal(pay, "ended")
        supervisor.until_ready(2)
        deployment.until_state(deployment.start([("look", "go")]), "completed")
