"""Real workers that ask a model over real HTTP: it fails, or the worker dies while it waits or asks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from cayu_runtime import registry
from cayu_runtime.models import Message, Session
from tests.conformance.openai_server import Server, calls, serving, silence, status, text
from tests.faults.deployment import Deployment, Supervisor, until
from tests.faults_app import agents

pytestmark = pytest.mark.timeout(120)

PAY = ("pay", '{"do": "go"}')


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("openai")
    registry.register_for_test(agents.DISTANT)
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def supervisor(deployment: Deployment, server: Server) -> Supervisor:
    started = deployment.supervise(
        workers=1, CAYU_LEASE_SECONDS="1", OPENAI_BASE_URL=server.url, OPENAI_API_KEY="sk-test"
    )
    started.until_ready(1)
    return started


def last_text(session: Session) -> str:
    body = Message.objects.filter(session=session).order_by("position").values_list("body", flat=True).last()
    return str(body["parts"][-1]["content"]) if body else ""


def test_a_worker_killed_during_the_back_off_leaves_a_step_that_is_tried_again(
    deployment: Deployment, supervisor: Supervisor, server: Server
) -> None:
    """B8, with a crash between back-off and retry."""
    server.will(calls(PAY), status(500, "it broke", Retry_After="4"), text("It is paid."))
    session = deployment.start(agent="distant")
    deployment.approve(session)
    waiting = until("a back-off", lambda: Session.objects.filter(pk=session.pk, model_failures=1).first())
    assert waiting.state == "pending"
    os.kill(supervisor.clusters()[0].worker, signal.SIGKILL)
    deployment.until_state(session, "completed")
    assert (last_text(session), session.model_failures, session.stalls) == ("It is paid.", 0, 0)
    assert len(deployment.journal(session)) == 1
    assert deployment.effect(session).state == "completed"
    assert len(server.requests) == 3


def test_a_worker_killed_while_the_model_is_asked_costs_the_provider_no_try(
    deployment: Deployment, supervisor: Supervisor, server: Server
) -> None:
    supervisor.until_ready(1)
    before = len(server.requests)
    server.will(silence, text("Here."))
    session = deployment.start(agent="distant")
    until("the model is asked", lambda: len(server.requests) > before)
    os.kill(supervisor.clusters()[0].worker, signal.SIGKILL)
    deployment.until_state(session, "completed")
    assert (last_text(session), "model.error" in deployment.events(session)) == ("Here.", False)
