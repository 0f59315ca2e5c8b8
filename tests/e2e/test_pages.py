"""What the pages do in a browser: keys, the question before a deed, reading to the end, refreshing; and how they look.

The site runs in this process; what comes of a decision is tested elsewhere.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from cayu_runtime.models import Approval
from tests.web.office import Office

pytestmark = [pytest.mark.chromium, pytest.mark.timeout(120)]

Open = Callable[..., Any]


@pytest.fixture
def office(transactional_db: None) -> Office:
    return Office()


@pytest.fixture
def opens(office: Office, browser: Any, live_server: Any, settings: Settings) -> Iterator[Open]:
    """A page of the site for a person who is signed in. At the end no page may have complained."""
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = False
    contexts, problems = [], []

    def open_page(address: str, who: User | None = None, **options: Any) -> Any:
        context = browser.new_context(base_url=live_server.url, reduced_motion="reduce", **options)
        contexts.append(context)
        session = office.client(who or office.alice).cookies["sessionid"].value
        context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if "Content Security Policy" in said.text else None)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def approve(page: Any) -> Any:
    return page.get_by_role("button", name="Approve and")


def read(page: Any) -> None:
    """Wait until the browser has noticed that the arguments were shown to their end."""
    page.locator("[data-approve]:enabled:visible").first.wait_for()


@pytest.mark.smoke
def test_an_external_deed_asks_in_place_with_the_focus_on_cancel(office: Office, opens: Open) -> None:  # UX 5
    approval = office.approval(office.ask())
    page = opens(f"/approvals/{approval.id}/")
    read(page)
    pressed = approve(page).bounding_box()
    page.mouse.dblclick(pressed["x"] + pressed["width"] / 2, pressed["y"] + pressed["height"] / 2)
    assert approve(page).is_visible(), "a double click opened the question and cancelled it"
    approve(page).click()
    assert focused(page).startswith("Cancel")
    yes = page.get_by_role("button", name="Yes, refund order 1042").bounding_box()
    assert yes["y"] + yes["height"] <= pressed["y"] or yes["y"] >= pressed["y"] + pressed["height"]
    page.keyboard.press("Enter")
    assert focused(page).startswith("Approve and")
    page.keyboard.press("a")
    page.keyboard.press("Escape")
    assert page.url.endswith(f"/approvals/{approval.id}/")
    approval.refresh_from_db()
    assert approval.state == "pending"
    page.keyboard.press("a")
    page.keyboard.press("y")
    page.get_by_text("Approved. Not dispatched yet.").wait_for()
    approval.refresh_from_db()
    assert approval.state == "approved"


def test_one_key_suffices_where_a_repeat_does_no_harm(office: Office, opens: Open) -> None:  # UX 4
    approval = office.approval(office.ask(("label", {"order": "7"})))
    page = opens(f"/approvals/{approval.id}/")
    read(page)
    page.keyboard.press("a")
    page.get_by_text("Approved. Not dispatched yet.").wait_for()


def test_both_decisions_work_without_javascript(office: Office, opens: Open) -> None:  # UX 20
    one, two = (office.approval(office.ask(expires_in=seconds)) for seconds in (100, 200))
    page = opens(f"/approvals/{one.id}/", java_script_enabled=False)
    page.get_by_label("Reason").fill("looks right")
    approve(page).click()
    page.get_by_role("button", name="Yes, refund order 1042").click()
    page.get_by_text("Approved. Not dispatched yet.").wait_for()
    assert page.url.endswith(f"/approvals/{two.id}/")
    page.get_by_role("button", name="Deny").click()
    page.get_by_text("Say why").wait_for()
    page.get_by_label("Reason").fill("not this one")
    page.get_by_role("button", name="Deny").click()
    page.get_by_text("Denied. Nothing was sent.").wait_for()
    assert one.decisions.get().reason == "looks right"
    assert two.decisions.get().reason == "not this one"


@pytest.mark.parametrize("width", [360, 1280])
def test_approve_stays_off_until_all_arguments_were_shown(width: int, office: Office, opens: Open) -> None:  # UX 6, A24
    body = "the long story. " * 20_000
    approval = office.approval(office.ask(("refund", {"order": "1042", "body": body})))
    page = opens(f"/approvals/{approval.id}/", viewport={"width": width, "height": 800})
    assert approve(page).is_disabled()
    page.keyboard.press("a")
    page.get_by_text("Approve stays off until").wait_for()
    page.mouse.wheel(0, 3000)
    page.wait_for_timeout(200)
    assert approve(page).is_disabled()
    page.evaluate("document.querySelector('[data-exact]').scrollTo(0, 1e9); scrollTo(0, 1e9)")
    read(page)


def test_a_denial_without_a_reason_is_not_sent(office: Office, opens: Open) -> None:
    page = opens(f"/approvals/{office.approval(office.ask()).id}/")
    page.keyboard.press("d")
    assert page.evaluate("document.activeElement.id") == "reason"
    page.keyboard.type("no d a y")
    assert page.get_by_label("Reason").input_value() == "no d a y"
    page.get_by_role("button", name="Deny").click()
    page.get_by_text("Denied. Nothing was sent.").wait_for()


def test_the_list_is_walked_by_keys_and_one_comes_back_to_the_same_row(office: Office, opens: Open) -> None:  # UX 3
    for number in range(30):
        office.ask(("refund", {"order": f"o{number}"}), expires_in=1000 + number)
    page = opens("/", viewport={"width": 1280, "height": 600})
    for _ in range(25):
        page.keyboard.press("j")
    page.keyboard.press("k")
    assert focused(page) == "Refund order o23"
    scroll = page.evaluate("scrollY")
    assert scroll > 0
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Refund order o23").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.textContent.trim() === 'Refund order o23'")
    assert abs(page.evaluate("scrollY") - scroll) < 3
    page.get_by_role("button", name="Next row").click()
    assert focused(page) == "Refund order o24"


def test_single_letters_can_be_switched_off_and_stay_off(office: Office, opens: Open) -> None:  # UX 3
    office.ask()
    page = opens("/")
    page.keyboard.press("?")
    page.get_by_label("Single-letter keys are on").uncheck()
    page.get_by_role("button", name="Close").click()
    page.reload()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    assert not focused(page).startswith("Refund")
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("Single-letter keys are on").check()
    page.get_by_role("button", name="Close").click()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    assert focused(page).startswith("Refund")


def test_a_session_page_follows_by_itself_and_keeps_what_was_opened(office: Office, opens: Open) -> None:
    session = office.ask()
    page = opens(f"/sessions/{session.session_id}/", office.bob)
    page.get_by_text("This page refreshes itself.").wait_for()
    page.get_by_text("Events,").click()
    approval = office.approval(session)
    office.client(office.alice).post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    page.get_by_text("Approved, not dispatched yet").wait_for()
    office.run(session)
    page.get_by_text("Done, not verified").wait_for()
    assert page.get_by_text("refund approved by alice").is_visible()
    assert page.get_by_role("status").filter(has_text="Session: Finished").count() == 1
    assert page.get_by_text("This page refreshes itself.").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_page_is_accessible_and_fits(width: int, scheme: str, office: Office, opens: Open) -> None:  # UX 20
    effect = office.unknown()
    session = office.ask(("look", {"order": "1"}), ("refund", {"order": "2\u202e", "memo": "x" * 900, "n": [1, {}]}))
    own = office.approval(office.ask(by=office.alice))
    done = effect.call.approvals.get()
    page = opens("/", viewport={"width": width, "height": 800}, color_scheme=scheme)
    waits = Approval.objects.get(session=session)
    for address in (
        "/", "/reconcile/", "/sessions/", "/start/", "/nowhere/", f"/effects/{effect.id}/",
        f"/sessions/{session.session_id}/", *(f"/approvals/{approval.id}/" for approval in (waits, own, done)),
    ):  # fmt: skip
        page.goto(address)
        found = Axe().run(page).response["violations"]
        assert [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found] == [], address
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
    page.goto(f"/approvals/{waits.id}/")
    heights = page.evaluate(
        "[...document.querySelectorAll('[data-bar] button')].filter(b => b.checkVisibility()).map(b => b.offsetHeight)"
    )
    assert min(heights) >= 44
