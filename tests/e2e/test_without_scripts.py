"""Ask, approve, dispatch, receipt with JavaScript switched off: real processes, plain forms, the ledger's own file.

So is what follows when no answer comes: a lookup, a receipt.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import Up

pytestmark = [pytest.mark.chromium, pytest.mark.timeout(240)]


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


def booked(up: Up, order: str) -> list[tuple[Any, ...]]:
    """What the ledger really has under this order: key and amount of each refund."""
    with closing(sqlite3.connect(up.var / "ledger.sqlite3")) as file:
        return file.execute("SELECT idempotency_key, amount FROM refunds WHERE order_id = ?", (order,)).fetchall()


def asked_for(requester: Any, up: Up, text: str) -> str:
    """The address of a session that was started by the form, once it waits for an approval."""
    requester.goto(f"{up.web}/start/")
    requester.get_by_label("What should it do?").fill(text)
    requester.get_by_role("button", name="Start session").click()
    requester.wait_for_url("**/sessions/*/")
    session: str = requester.url
    until(requester, session, "Waits for approval")
    return session


def approve(approver: Any, up: Up, order: str) -> None:
    until(approver, f"{up.web}/", f"Refund order {order}")
    approver.get_by_role("link", name=f"Refund order {order}", exact=True).click()
    approver.get_by_label("Reason").fill("the customer is right")
    approver.get_by_role("button", name="Approve and").click()
    assert booked(up, order) == []
    approver.get_by_role("button", name="Yes,", exact=False).click()
    approver.get_by_text("Approved. Not dispatched yet.").wait_for()


def open_uncertain(approver: Any, up: Up, order: str) -> None:
    """The effect's page, from the queue of what nobody knows."""
    until(approver, f"{up.web}/reconcile/", f"Refund order {order}")
    approver.get_by_role("link", name=f"Refund order {order}", exact=True).click()
    approver.get_by_text("Nobody knows whether this happened.").wait_for()


def ends_with_its_receipt(requester: Any, session: str) -> None:
    """Finished, and said to be done on the strength of a receipt, which stands on the effect's page."""
    until(requester, session, "Finished")
    assert requester.get_by_text("Done, not verified").count() == 1
    requester.get_by_role("link", name="Effect record").click()
    requester.get_by_role("heading", name="Receipt", exact=True).wait_for()
    assert requester.get_by_text("Dispatched").first.locator("xpath=..").inner_text().endswith("1 time")


def test_from_the_request_to_the_receipt_and_when_no_answer_comes(browser: Any, start_up: Callable[[], Up]) -> None:
    up = start_up().until_ready()
    requester, approver = (signed_in(browser, up, name) for name in ("requester", "approver"))

    session = asked_for(requester, up, "refund order 1042 25.50 because damaged")
    approve(approver, up, "1042")
    ends_with_its_receipt(requester, session)
    assert [amount for _, amount in booked(up, "1042")] == ["25.50"]

    session = asked_for(requester, up, "refund order 7 3.00 because late and lose the answer")
    approve(approver, up, "7")
    open_uncertain(approver, up, "7")
    approver.get_by_label("Why do you ask?").fill("the customer called")
    approver.get_by_role("button", name="Look up now").click()
    approver.get_by_text("The receiving system confirms that it was done.", exact=False).wait_for()
    ends_with_its_receipt(requester, session)
    assert len(booked(up, "7")) == 1

    session = asked_for(requester, up, "refund order 8 4.00 because late and lose the answer")
    approve(approver, up, "8")
    open_uncertain(approver, up, "8")
    bring(approver, "R-1, booked on Friday")
    approver.get_by_role("heading", name="Nothing was changed").wait_for()
    assert approver.get_by_label("Receipt, as JSON", exact=False).input_value() == "R-1, booked on Friday"
    bring(approver, json.dumps(record_of(up, "8")))
    approver.get_by_text("The receiving system confirms that it was done.", exact=False).wait_for()
    ends_with_its_receipt(requester, session)
    assert len(booked(up, "8")) == 1

    for page in (requester, approver):
        page.context.close()


def bring(approver: Any, receipt: str) -> None:
    if not approver.get_by_label("Receipt, as JSON", exact=False).is_visible():
        approver.get_by_text("It happened: I have the receipt").click()
    approver.get_by_label("Receipt, as JSON", exact=False).fill(receipt)
    approver.get_by_label("Where does it come from?").fill("the ledger's clerk")
    approver.get_by_role("button", name="Have this receipt judged").click()


def record_of(up: Up, order: str) -> dict[str, Any]:
    """The ledger's own record, as its clerk would send it."""
    (refund,) = httpx.get(f"{up.ledger}/refunds", params={"order_id": order}).json()["refunds"]
    return {name: value for name, value in refund.items() if name != "idempotency_key"}
