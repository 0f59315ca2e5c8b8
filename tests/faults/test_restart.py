"""What waits for people when everything is killed waits for them after the restart (A20)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import psutil
import pytest

from cayu_runtime.models import Approval
from tests.faults.deployment import Deployment, until, until_gone
from tests.faults.load import Person, Web, open_office

pytestmark = pytest.mark.timeout(120)

SESSIONS, BY_PAGE = 25, 20


def test_fifty_approvals_outlive_web_and_workers_and_each_is_decided_and_done_once(deployment: Deployment, web: Web):
    """A20: decided by people who were signed in before, on the page, and by the service."""
    open_office(deployment.tenant)
    supervisor = deployment.supervise(workers=2)
    web.until_live()
    with ExitStack() as ending:
        approver = Person(web, "approver")
        ending.callback(approver.close)
        approver.sign_in()
        sessions = [deployment.start([("pay", "go"), ("pay", "go")], agent="gated") for _ in range(SESSIONS)]
        until("fifty are asked for", is_pending(2 * SESSIONS))
        shown = approver.asked()
        assert len(set(shown)) == 2 * SESSIONS

        everything = [*supervisor.everything(), *psutil.Process(web.process.pid).children(), web.process]
        for process in everything:
            process.kill()
        supervisor.process.wait()
        web.process.wait()
        until_gone([process.pid for process in everything], 5)
        assert is_pending(2 * SESSIONS)()

        again = deployment.supervise(workers=2)
        web.start()
        web.until_live()
        assert approver.asked() == shown
        assert [approver.approve(address) for address in shown[:BY_PAGE]] == [302] * BY_PAGE
        for approval in Approval.objects.filter(state="pending"):
            deployment.decide(approval)
        for session in sessions:
            deployment.until_state(session, "completed")
            assert len({line["operation"] for line in deployment.journal(session)}) == 2
        assert len(deployment.journal()) == 2 * SESSIONS
        assert again.end() == 0


def is_pending(count: int) -> Callable[[], bool]:
    return lambda: Approval.objects.filter(state="pending").count() == count
