"""CASES B17: a database is restored from a backup that is older than refunds which the ledger has booked since.

The ledger is its real process. What it was asked and what it booked is read in its own file.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cayu_project.demo.agents import REFUNDS
from cayu_runtime import Actor, registry
from cayu_runtime.core import execution
from cayu_runtime.models import Approval, EffectRecord, Session
from cayu_runtime.services.effect import Seen, look_up_effect
from cayu_runtime.services.quarantine import (
    left_unknown,
    look_up_quarantined,
    release_quarantine,
    resume_stopped,
    start_quarantine,
    take_sessions,
)
from tests.faults.backups import Backup
from tests.faults.deployment import ROOT
from tests.machine import Machine
from tests.unit.ledger.observer import rows

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("transactional_db", "everybody_may")]


class Ledger:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "ledger.sqlite3"
        command = [sys.executable, "-m", "cayu_project.demo.ledger", "--db", str(self.file), "--port", "0"]
        with (folder / "ledger.log").open("wb") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1]

    def booked(self) -> Counter[str]:
        return Counter(order for (order,) in rows(self.file, "SELECT order_id FROM refunds"))

    def asked(self) -> Counter[str]:
        return Counter(order for (order,) in rows(self.file, "SELECT order_id FROM requests"))

    def end(self) -> None:
        assert self.process.stdout is not None
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path)
    yield made
    made.end()


@pytest.fixture
def backup(tmp_path: Path) -> Iterator[Backup]:
    made = Backup(tmp_path)
    yield made
    made.forget()


class Clerk(Machine):
    """The demo's agent on one tenant, with a ledger of the test's own."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.agent = replace(REFUNDS, name="refunds-of-a-test", resources={"ledger": ledger.url})
        registry.register_for_test(self.agent)

    def asks(self, order: str, accident: str = "", *, run: bool = True) -> Session:
        return self.start(self.agent, f"refund order {order} 5.00 because late {accident}".strip(), run=run)

    def approves(self, session: Session) -> Session:
        for approval in self.approvals(session):
            self.decide(approval, "approve")
        return session

    def looks_up(self, session: Session) -> EffectRecord:
        effect = self.effect(session)
        seen = Seen(effect.revision, effect.dispatch_id)
        return look_up_effect(self.tenant, self.bob, effect.pk, seen, reason="looked up").effect


def before_the_backup(clerk: Clerk) -> dict[str, Session]:
    """A session in each state that a backup may catch one in."""
    sessions = {
        "waiting": clerk.asks("waiting"),
        "denied": clerk.asks("denied"),
        "approved": clerk.approves(clerk.asks("approved")),
        "answer": clerk.run(clerk.approves(clerk.asks("answer", "and lose the answer"))),
        "request": clerk.run(clerk.approves(clerk.asks("request", "and lose the request"))),
        "ended": clerk.run(clerk.approves(clerk.asks("ended"))),
        "young": clerk.asks("young", run=False),
        "running": clerk.approves(clerk.asks("running")),
    }
    assert clerk.effect(sessions["request"]).state == "outcome_unknown"
    return sessions


def after_the_backup(clerk: Clerk, sessions: dict[str, Session]) -> None:
    """All of it moves on, and money with it."""
    clerk.run(clerk.approves(sessions["waiting"]))
    clerk.decide(clerk.approvals(sessions["denied"])[0], "deny")
    clerk.run(sessions["approved"])
    assert clerk.looks_up(sessions["answer"]).state == "completed"
    assert clerk.looks_up(sessions["request"]).state == "safe_to_retry"
    clerk.run(clerk.approves(sessions["request"]))
    clerk.run(clerk.approves(clerk.run(sessions["young"])))
    for session in sessions.values():
        session.refresh_from_db()
    assert clerk.effect(sessions["request"]).state == "completed"


def test_after_a_restored_backup_nothing_is_done_a_second_time(
    ledger: Ledger, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    clerk = Clerk(ledger)
    sessions = before_the_backup(clerk)
    perform = execution.perform

    def backed_up_meanwhile(*args: Any) -> Any:
        backup.take()
        return perform(*args)

    with monkeypatch.context() as patched:
        patched.setattr(execution, "perform", backed_up_meanwhile)
        clerk.run(sessions["running"])
    after_the_backup(clerk, sessions)
    booked, asked = ledger.booked(), ledger.asked()
    done = {"waiting", "approved", "answer", "request", "ended", "young", "running"}
    assert booked == dict.fromkeys(done, 1)

    backup.restore()
    assert {name: clerk.effect(sessions[name]).state for name in ("waiting", "approved", "running", "request")} == {
        "waiting": "proposed", "approved": "authorized", "running": "intent_recorded", "request": "outcome_unknown",
    }  # fmt: skip

    operator = Actor("user:bob", "bob", clerk.tenant.pk, "shell")
    quarantine = start_quarantine(operator, reason="the disk was lost", tenant=clerk.tenant)
    assert take_sessions(operator, quarantine).whole
    for session in sessions.values():
        assert clerk.run(session).state in ("interrupted", "completed")
    assert (ledger.booked(), ledger.asked()) == (booked, asked)

    looked = look_up_quarantined(clerk.tenant, operator, reason="the disk was lost")
    assert (dict(looked.states), looked.refused) == ({"completed": 4, "safe_to_retry": 2}, [])
    assert left_unknown([clerk.tenant]) == []
    assert release_quarantine(operator, quarantine, [clerk.tenant], reason="all looked up") == 0
    assert resume_stopped(operator, quarantine, reason="all looked up")[1:] == ([], None)
    for session in sessions.values():
        clerk.run(session)
    assert (ledger.booked(), ledger.asked()) == (booked, asked)  # nothing was sent for it

    fresh = Approval.objects.filter(state="pending").values_list("target", "version")
    assert dict(fresh) == {"denied": 2, "request": 2, "young": 1}  # `young` was proposed after the backup: it is lost
    for name in ("denied", "request"):
        clerk.run(clerk.approves(sessions[name]))
    assert clerk.effect(sessions["request"]).state == "completed"
    assert ledger.booked() == {**booked, "denied": 1}  # what had been retried meanwhile was recognised by its key
    assert ledger.asked() - asked == {"denied": 1, "request": 1}
    states = {name: clerk.run(session).state for name, session in sessions.items()}
    assert states == {**dict.fromkeys(sessions, "completed"), "young": "interrupted"}


def test_without_a_quarantine_it_would_be_sent_again(ledger: Ledger, backup: Backup) -> None:
    """That the test above can fail: the same restore, and a worker that just goes on."""
    clerk = Clerk(ledger)
    session = clerk.approves(clerk.asks("approved"))
    backup.take()
    clerk.run(session)
    backup.restore()
    clerk.run(session)
    assert ledger.asked() == {"approved": 2}
