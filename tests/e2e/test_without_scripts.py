"""Ask, approve, dispatch, receipt with JavaScript switched off: real processes, plain forms, the ledger's own file."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.e2e.conftest import Up

pytestmark = [pytest.mark.chromium, pytest.mark.timeout(150)]


def signed_in(browser: Any, up: Up, name: str) -> Any:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.set_default_timeout(15_000)
    page.goto(f"{up.web}/accounts/login/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(up.password(name))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{up.web}/")
    return page


def until(page: Any, address: str, text: str) -> None:
    """Load a page again, as a person does, until it says this."""
    for _ in range(80):
        page.goto(address)
        if page.get_by_text(text, exact=False).count():
            return
        page.wait_for_timeout(250)
    raise AssertionError(f"{address} never said {text!r}: {page.inner_text('main')}")


def refunds(up: Up) -> list[Any]:
    with closing(sqlite3.connect(up.var / "ledger.sqlite3")) as file:
        return file.execute("SELECT order_id, amount FROM refunds").fetchall()


def test_from_the_request_to_the_receipt(browser: Any, start_up: Callable[[], Up]) -> None:
    up = start_up().until_ready()
    requester, approver = (signed_in(browser, up, name) for name in ("requester", "approver"))
    requester.goto(f"{up.web}/start/")
    requester.get_by_label("What should it do?").fill("refund order 1042 25.50 because damaged")
    requester.get_by_role("button", name="Start session").click()
    requester.wait_for_url("**/sessions/*/")
    session = requester.url
    until(requester, session, "Waits for approval")

    until(approver, f"{up.web}/", "1042")
    approver.get_by_role("link", name="1042").first.click()
    approver.get_by_label("Reason").fill("the customer is right")
    approver.get_by_role("button", name="Approve and").click()
    assert refunds(up) == []
    approver.get_by_role("button", name="Yes,", exact=False).click()
    approver.get_by_text("Approved. Not dispatched yet.").wait_for()

    until(requester, session, "Finished")
    assert requester.get_by_text("Done, not verified").count() == 1
    assert len(refunds(up)) == 1
    requester.get_by_role("link", name="Effect record").click()
    requester.get_by_role("heading", name="Receipt").wait_for()
    for page in (requester, approver):
        page.context.close()
