"""A refund that the approver makes smaller, and one that they take back: real processes, the ledger's own file."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import ROOT, Up
from tests.e2e.test_spine import Person, people, refunds, requests

__all__ = ["people"]
pytestmark = [pytest.mark.chromium, pytest.mark.timeout(150)]


def manage(up: Up, *words: str) -> str:
    """A command of an operator at a shell, on the demo's own database."""
    environment = {**os.environ, "CAYU_ENV_FILE": str(up.var / "env")}
    for name in ("SECRET_KEY", "DATABASE_URL", "DJANGO_SETTINGS_MODULE"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "manage.py", *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def second_approver(browser: Any, up: Up) -> Person:
    word = "a second pair of eyes"
    make = f"from django.contrib.auth.models import User; User.objects.create_user('controller', password={word!r})"
    manage(up, "shell", "-c", make)
    manage(up, "grantrole", "controller", "demo", "approver")
    return Person(browser, up, "controller", word)


def test_an_approver_makes_a_refund_smaller_another_approves_it_and_the_ledger_sees_that_amount_once(
    browser: Any, start_up: Callable[[], Up], people: Callable[[Up], tuple[Person, Person]]
) -> None:  # A15
    up = start_up().until_ready()
    requester, approver = people(up)
    session = requester.asks("refund order 1042 500 because damaged")
    requester.opens("Refund order 1042")
    assert requester.page.get_by_text("Change it, for somebody else to approve").count() == 0
    approver.opens("Refund order 1042")
    page = approver.page
    page.get_by_text("Change it, for somebody else to approve").click()
    field = page.get_by_label("Arguments, as JSON")
    asked = field.input_value()
    assert '"amount": "500.00"' in asked

    field.fill(asked.replace('"500.00"', '"50.00"'))
    page.get_by_role("button", name="Record these changes").click()
    page.get_by_text("Changed. Somebody else must approve it as it is now.").wait_for()
    approver.opens("Refund order 1042")
    page.get_by_text("You changed these arguments yourself", exact=False).first.wait_for()
    assert refunds(up) == []
    controller = second_approver(browser, up)
    controller.approves("Refund order 1042")
    controller.context.close()
    assert controller.problems == []

    requester.sees(session, "Order 1042: 50.00 was refunded")
    requester.sees(session, "Changed by approver before it was approved")
    assert (refunds(up), requests(up)) == ([("1042", "50.00")], [("1042",)])


def test_what_was_approved_is_taken_back_before_it_is_dispatched_and_nothing_is_sent(
    start_up: Callable[[], Up], people: Callable[[Up], tuple[Person, Person]]
) -> None:
    up = start_up().until_ready()
    requester, approver = people(up)
    session = requester.asks("refund order 1042 500 because damaged")
    manage(up, "dispatch", "pause", "--reason", "the ledger is moving")
    approver.approves("Refund order 1042")
    requester.sees(session, "Held back: dispatch is paused")
    page = approver.page
    page.get_by_role("link", name="take it back").click()
    page.get_by_label("Reason").fill("It is another order.")
    page.get_by_role("button", name="Take back, send nothing").click()
    page.get_by_text("Taken back. Nothing was sent.").wait_for()
    manage(up, "dispatch", "resume")
    requester.sees(session, "No refund was made (denied)")
    requester.sees(session, "It is another order.")
    assert (refunds(up), requests(up)) == ([], [])
