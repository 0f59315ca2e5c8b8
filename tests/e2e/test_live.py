"""Pages that look again: a queue whose rows never move, and a session whose typed words stay."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from tests.web.office import Office

pytestmark = [pytest.mark.chromium, pytest.mark.timeout(120)]


@pytest.fixture
def office(transactional_db: None) -> Office:
    return Office()


@pytest.fixture
def opens(office: Office, browser: Any, live_server: Any, settings: Settings) -> Iterator[Callable[[str], Any]]:
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = False
    context = browser.new_context(base_url=live_server.url)
    key = office.client(office.alice).cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": key, "url": live_server.url}])
    problems: list[str] = []

    def open_page(address: str) -> Any:
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)
        return page

    yield open_page
    context.close()
    assert problems == []


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def test_the_focused_row_never_moves_and_what_is_new_waits_behind_a_pill(  # UX 15
    office: Office, opens: Callable[[str], Any]
) -> None:
    first, second = (office.ask(("refund", {"order": f"o{n}"}), expires_in=1000 + n) for n in range(2))
    page = opens("/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert focused(page) == "Refund order o1"
    before = page.evaluate("document.activeElement.getBoundingClientRect().top")
    office.ask(("refund", {"order": "sooner"}), expires_in=100)
    office.ask(("refund", {"order": "later"}), expires_in=9000)
    approval = office.approval(first)
    office.client(office.erin).post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    page.get_by_role("button", name="2 new").wait_for()
    assert page.title().startswith("3 to approve, 0 to reconcile")  # UX 1
    assert page.locator(f"#r-{approval.id}.gone").is_visible()
    assert page.get_by_role("navigation", name="Queues").get_by_text("3", exact=True).is_visible()
    assert focused(page) == "Refund order o1"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") == before
    page.get_by_role("button", name="2 new").click()
    page.wait_for_function("document.activeElement.textContent.trim() === 'Refund order o1'")
    rows = page.locator("[data-rows] .row-what a").all_inner_texts()
    assert rows == ["Refund order sooner", "Refund order o1", "Refund order later"]
    assert page.locator("[data-live-new]").is_hidden()
    assert page.url.endswith(f"#r-{office.approval(second).id}")


def test_an_empty_queue_says_when_something_came(office: Office, opens: Callable[[str], Any]) -> None:
    page = opens("/")
    page.get_by_text("Nothing waits for you.").wait_for()
    office.ask()
    page.get_by_role("button", name="1 new").click()
    page.get_by_role("link", name="Refund order 1042").wait_for()


@pytest.mark.parametrize("address", ["queue", "session"])
def test_a_lost_connection_is_told_and_tried_again(address: str, office: Office, opens: Callable[[str], Any]) -> None:
    session = office.ask()
    page = opens("/" if address == "queue" else f"/sessions/{session.session_id}/")
    page.context.set_offline(True)
    page.get_by_text("Live updates paused, retrying.").wait_for()
    page.context.set_offline(False)
    page.get_by_text("Live updates paused, retrying.").wait_for(state="hidden", timeout=40_000)


def test_words_that_are_being_typed_stay_when_the_session_moves(office: Office, opens: Callable[[str], Any]) -> None:
    session = office.ask()
    page = opens(f"/sessions/{session.session_id}/")
    page.get_by_text("Stop this session").click()
    page.get_by_label("Why, for the record").fill("my long thought")
    approval = office.approval(session)
    office.client(office.erin).post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    page.get_by_text("Approved, not dispatched yet").wait_for()
    assert page.get_by_label("Why, for the record").input_value() == "my long thought"
    assert page.evaluate("document.activeElement.id") == "stop-reason"
    page.get_by_role("button", name="Stop session").click()
    page.get_by_text("Stopped. What had not begun was not sent.").wait_for()


def test_a_hidden_page_asks_for_nothing(office: Office, opens: Callable[[str], Any]) -> None:
    page = opens("/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "x-cayu-live" in request.headers else None)
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_timeout(6_000)
    assert asked == []
