"""The product's thinnest whole, as two people live it: real processes, a real browser, and the ledger's own file.

Both see their own browser profile; what happened is read from the ledger's tables, not from a page.
"""

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.e2e.conftest import Up

pytestmark = [pytest.mark.chromium, pytest.mark.timeout(150)]


class Person:
    """Somebody in a browser profile of their own: one of the two of the demo, or with a password that is given."""

    def __init__(self, browser: Any, up: Up, name: str, password: str = "") -> None:
        self.up, self.name = up, name
        self.context = browser.new_context()
        self.page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.problems: list[str] = []
        self.page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.goto(f"{up.web}/accounts/login/")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(password or up.password(name))
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("link", name="Start", exact=False).first.wait_for()

    def asks(self, text: str) -> str:
        """Type it on the start page; returns the address of the session's page."""
        self.page.goto(f"{self.up.web}/start/")
        self.page.get_by_label("What should it do?").fill(text)
        self.page.get_by_role("button", name="Start session").click()
        self.page.wait_for_url("**/sessions/*/")
        return str(self.page.url)

    def opens(self, what: str, where: str = "/") -> None:
        """Wait until it stands in the queue, and open it."""
        link = self.page.get_by_role("link", name=what, exact=True)
        for _ in range(60):
            self.page.goto(f"{self.up.web}{where}")
            if link.count():
                link.click()
                self.page.get_by_role("heading", name=what, level=1).wait_for()
                return
            self.page.wait_for_timeout(250)
        raise AssertionError(f"{what} never came to the queue: {self.page.inner_text('main')}")

    def approves(self, what: str) -> None:
        self.opens(what)
        self.page.get_by_role("button", name=f"Approve and {what[0].lower()}{what[1:]}").click()
        self.page.get_by_role("button", name="Yes,", exact=False).click()
        self.page.get_by_text("Not dispatched yet", exact=False).wait_for()

    def denies(self, what: str, reason: str) -> None:
        self.opens(what)
        self.page.get_by_label("Reason").fill(reason)
        self.page.get_by_role("button", name="Deny").click()
        self.page.get_by_text("Denied.", exact=False).wait_for()

    def looks_up(self, why: str) -> None:
        self.page.get_by_label("Why do you ask?").fill(why)
        self.page.get_by_role("button", name="Look up now").click()

    def sees(self, address: str, text: str) -> None:
        self.page.goto(address)
        self.page.get_by_text(text, exact=False).first.wait_for()


@pytest.fixture
def people(browser: Any) -> Iterator[Callable[[Up], tuple[Person, Person]]]:
    made: list[Person] = []

    def sign_in(up: Up) -> tuple[Person, Person]:
        made.extend(Person(browser, up, name) for name in ("requester", "approver"))
        return made[-2], made[-1]

    yield sign_in
    for person in made:
        person.context.close()
        assert person.problems == [], f"{person.name}'s browser complained"


def refunds(up: Up) -> list[tuple[str, str]]:
    return _ledger(up, "SELECT order_id, amount FROM refunds ORDER BY booked_at")


def requests(up: Up) -> list[tuple[str]]:
    return _ledger(up, "SELECT order_id FROM requests ORDER BY id")


def _ledger(up: Up, query: str) -> list[Any]:
    with closing(sqlite3.connect(up.var / "ledger.sqlite3")) as ledger:
        return ledger.execute(query).fetchall()


def test_a_refund_is_typed_approved_and_booked_once_and_another_is_denied(
    start_up: Callable[[], Up], people: Callable[[Up], tuple[Person, Person]]
) -> None:
    up = start_up().until_ready()
    requester, approver = people(up)

    first = requester.asks("refund order 1042 25.50 because damaged")
    requester.opens("Refund order 1042")
    assert requester.page.get_by_role("button", name="Approve and refund order 1042").is_disabled()
    assert refunds(up) == []
    approver.approves("Refund order 1042")
    requester.sees(first, "Order 1042: 25.50 was refunded")
    assert refunds(up) == [("1042", "25.50")]

    second = requester.asks("refund order 77 3 because late")
    approver.denies("Refund order 77", "The parcel arrived in time.")
    requester.sees(second, "No refund was made (denied)")
    requester.sees(second, "The parcel arrived in time.")
    assert refunds(up) == [("1042", "25.50")]


def test_what_became_of_a_refund_is_looked_up_and_one_that_never_came_is_approved_once_more(
    start_up: Callable[[], Up], people: Callable[[Up], tuple[Person, Person]]
) -> None:  # C1, C9
    up = start_up().until_ready()
    requester, approver = people(up)

    # The ledger books it and drops the connection: it is looked up, and the session goes on to its end.
    answer = requester.asks("refund order 7 10 and lose the answer")
    approver.approves("Refund order 7")
    requester.sees(answer, "Outcome unknown")
    approver.opens("Refund order 7", where="/reconcile/")
    assert (refunds(up), requests(up)) == ([("7", "10.00")], [("7",)])
    approver.looks_up("the customer called")
    approver.page.get_by_text("The receiving system confirms that it was done.").wait_for()
    requester.sees(answer, "Order 7: 10.00 was refunded")
    assert (refunds(up), requests(up)) == ([("7", "10.00")], [("7",)])

    # The request is lost: the ledger says no and bars the key, and a fresh approval sends it once more.
    request = requester.asks("refund order 8 10 and lose the request")
    approver.approves("Refund order 8")
    requester.sees(request, "Outcome unknown")
    approver.opens("Refund order 8", where="/reconcile/")
    approver.looks_up("the customer called")
    approver.page.get_by_text("It is proved that it did not happen.", exact=False).first.wait_for()
    assert (refunds(up), requests(up)) == ([("7", "10.00")], [("7",), ("8",)])
    approver.approves("Refund order 8")
    requester.sees(request, "Order 8: 10.00 was refunded")
    assert (refunds(up), requests(up)) == ([("7", "10.00"), ("8", "10.00")], [("7",), ("8",), ("8",)])


def test_what_waits_when_everything_is_killed_is_decided_and_done_after_the_next_start(
    start_up: Callable[[], Up], people: Callable[[Up], tuple[Person, Person]]
) -> None:  # A20
    up = start_up().until_ready()
    requester, approver = people(up)
    sessions = [requester.asks(f"refund order {order} 1.00 because wrong") for order in range(201, 206)]
    lost = requester.asks("refund order 300 9.00 because wrong and lose the answer")
    approver.approves("Refund order 300")
    requester.sees(lost, "Outcome unknown")
    for order in range(201, 206):
        approver.opens(f"Refund order {order}")

    for person in (requester, approver):
        person.page.goto("about:blank")
    everything = [up.process.pid, *up.children]
    for pid in everything:
        os.kill(pid, signal.SIGKILL)
    up.process.wait(10)

    again = start_up().until_ready()
    approver.denies("Refund order 201", "Not this one.")
    for order in range(202, 206):
        approver.approves(f"Refund order {order}")
    for order, session in zip(range(201, 206), sessions, strict=True):
        requester.sees(session, "No refund was made" if order == 201 else f"Order {order}: 1.00 was refunded")
    requester.sees(lost, "Outcome unknown")
    assert sorted(refunds(again)) == [(str(o), "1.00") for o in range(202, 206)] + [("300", "9.00")]
    assert sorted(requests(again)) == [(str(o),) for o in [*range(202, 206), 300]]
