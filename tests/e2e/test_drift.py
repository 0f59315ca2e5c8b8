"""Observe, propose, authorise, act once, verify: through the pages, with real processes and the ledger's own file."""

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.e2e.conftest import Up
from tests.e2e.test_spine import Person, people

__all__ = ["people"]
pytestmark = [pytest.mark.chromium, pytest.mark.timeout(200)]


def ledger(up: Up, query: str) -> list[Any]:
    with closing(sqlite3.connect(up.var / "ledger.sqlite3")) as file:
        return file.execute(query).fetchall()


def changes(up: Up) -> list[tuple[str, str]]:
    return ledger(up, "SELECT target, reason FROM changes ORDER BY applied_at")


def steps(up: Up, target: str) -> list[str]:
    return [kind for (kind,) in ledger(up, f"SELECT kind FROM steps WHERE target = '{target}' ORDER BY id")]


def recorded(up: Up, query: str, *values: Any) -> list[Any]:
    with closing(sqlite3.connect(up.var / "cayu.sqlite3")) as file:
        return file.execute(query, values).fetchall()


def asks_drift(person: Person, text: str) -> str:
    person.page.goto(f"{person.up.web}/start/")
    person.page.get_by_role("radio", name="drift", exact=False).check()
    person.page.get_by_label("What should it do?").fill(text)
    person.page.get_by_role("button", name="Start session").click()
    person.page.wait_for_url("**/sessions/*/")
    return str(person.page.url)


def approves(person: Person, what: str) -> None:
    person.opens(what)
    person.page.get_by_text("Matches proposal, digest").wait_for()
    person.page.get_by_role("button", name=f"Approve and {what[0].lower()}{what[1:]}").click()
    person.page.get_by_text("Not dispatched yet", exact=False).wait_for()


def test_drift_is_observed_proposed_authorised_corrected_once_and_verified_across_processes(
    start_up: Callable[[], Up], people: Callable[[Up], tuple[Person, Person]]
) -> None:
    up = start_up().until_ready()
    requester, approver = people(up)
    session = asks_drift(requester, "check demo")

    # It waits as one request; nothing was applied.
    requester.opens("Apply change to demo")
    assert requester.page.get_by_role("button", name="Approve and apply change to demo").is_disabled()
    assert (changes(up), steps(up, "demo")) == ([], ["observed"])
    waiting = recorded(up, "SELECT id FROM cayu_runtime_approval WHERE state = 'pending'")
    assert len(waiting) == 1

    # Everything is killed. The next processes find the same request, and still have done nothing.
    for person in (requester, approver):
        person.page.goto("about:blank")
    for pid in [up.process.pid, *up.children]:
        os.kill(pid, signal.SIGKILL)
    up.process.wait(10)
    again = start_up().until_ready()
    approver.opens("Apply change to demo")
    assert recorded(again, "SELECT id FROM cayu_runtime_approval WHERE state = 'pending'") == waiting
    assert (changes(again), steps(again, "demo")) == ([], ["observed"])

    # What was proposed is what is asked for, field by field.
    (proposal,) = recorded(again, "SELECT id, action_id, fields, state FROM cayu_runtime_proposal")
    fields = {"action_id": proposal[1], "target": "demo", "reason": "observed_drift"}
    (call,) = recorded(
        again, "SELECT proposal_id, operation_id, arguments FROM cayu_runtime_toolcall WHERE tool = 'apply_change'"
    )
    assert (json.loads(proposal[2]), proposal[3]) == (fields, "open")
    assert (call[0], call[1], json.loads(call[2])) == (proposal[0], proposal[1], fields)

    # Approved: applied once, then looked at, then the agent says so.
    approves(approver, "Apply change to demo")
    requester.sees(session, "a new look verified it")
    assert changes(again) == [("demo", "observed_drift")]
    assert steps(again, "demo") == ["observed", "apply_started", "apply_finished", "verified"]
    assert recorded(again, "SELECT COUNT(*) FROM cayu_runtime_event WHERE type = 'model.completed'") == [(4,)]
    assert recorded(again, "SELECT state FROM cayu_runtime_session") == [("completed",)]
    assert recorded(again, "SELECT state FROM cayu_runtime_proposal") == [("used",)]
    decided = recorded(again, "SELECT actor_name, source, verdict FROM cayu_runtime_decision")
    assert decided == [("approver", "web", "approve")]
    approver.page.goto(f"{again.web}/")
    approver.page.get_by_text("Nothing waits", exact=False).first.wait_for()

    # Four eyes are off: an approver may authorise what they asked for. A denial changes nothing.
    own = asks_drift(approver, "check web-1")
    approves(approver, "Apply change to web-1")
    approver.sees(own, "a new look verified it")
    denied = asks_drift(requester, "check web-2")
    approver.denies("Apply change to web-2", "Not today.")
    requester.sees(denied, "Nothing was changed (denied)")
    healthy = asks_drift(requester, "check demo")
    requester.sees(healthy, "demo is as wanted.")
    assert changes(again) == [("demo", "observed_drift"), ("web-1", "observed_drift")]
    assert steps(again, "web-2")[:2] == ["observed"]
