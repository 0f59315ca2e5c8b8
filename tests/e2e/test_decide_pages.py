"""Changing, taking back, held and together in a browser: with and without JavaScript, and how they look."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from cayu_runtime.core import clock
from cayu_runtime.models import Approval, EffectRecord
from tests.e2e.test_pages import Open, focused, office, opens, read
from tests.web.office import Office

__all__ = ["office", "opens"]
pytestmark = [pytest.mark.chromium, pytest.mark.timeout(120)]

ASKED = {"order": "1042", "amount": 500}
CHANGED = '{"order": "1043", "amount": 50}'


def changeable(office: Office, tool: str = "refund") -> Approval:
    return office.approval(office.ask((tool, ASKED), editable=True, four_eyes=False))


def change(page: Any, text: str) -> None:
    page.get_by_text("Change before approving").click()
    page.get_by_label("Arguments, as JSON").fill(text)


def see_all(page: Any) -> None:
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    read(page)


def test_only_one_of_the_two_ways_to_approve_can_be_pressed(office: Office, opens: Open) -> None:
    page = opens(f"/approvals/{changeable(office).id}/")
    read(page)
    as_asked = page.get_by_role("button", name="Approve and refund order 1042")
    with_changes = page.get_by_role("button", name="Approve with these changes")
    change(page, CHANGED)
    assert (as_asked.is_visible(), with_changes.is_visible()) == (False, True)
    page.get_by_text("You changed the arguments").wait_for()
    page.get_by_role("link", name="Put the arguments back").click()
    assert (as_asked.is_visible(), with_changes.is_visible()) == (True, False)
    assert '"amount": 500' in page.get_by_label("Arguments, as JSON").input_value()


def test_a_change_is_approved_by_keys_after_the_question(office: Office, opens: Open) -> None:  # UX 5
    approval = changeable(office)
    page = opens(f"/approvals/{approval.id}/")
    read(page)
    change(page, CHANGED)
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    page.get_by_role("heading", name="What you change").wait_for()
    assert focused(page).startswith("Cancel")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Approve with these changes").wait_for()
    assert page.get_by_label("Arguments, as JSON").input_value() == CHANGED
    see_all(page)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("a")
    page.get_by_role("heading", name="What you change").wait_for()
    see_all(page)
    page.keyboard.press("y")
    page.get_by_text("Approved as you changed it.").wait_for()
    approval.refresh_from_db()
    assert (approval.state, approval.target) == ("approved", "1043")


def test_changing_and_taking_back_work_without_javascript(office: Office, opens: Open) -> None:  # UX 20
    approval = changeable(office)
    page = opens(f"/approvals/{approval.id}/", java_script_enabled=False)
    change(page, CHANGED)
    page.get_by_role("button", name="Approve and refund order 1042").click()
    page.get_by_text("this button approves them as they were asked for").wait_for()
    page.get_by_role("button", name="Approve with these changes").click()
    page.get_by_role("button", name="Cancel, back to the change").click()
    assert page.get_by_label("Arguments, as JSON").input_value() == CHANGED
    page.get_by_role("button", name="Approve with these changes").click()
    page.get_by_role("button", name="Yes, refund order 1043").click()
    page.get_by_role("link", name="take it back").click()
    page.get_by_text("alice changed what the agent had asked for").wait_for()
    page.get_by_label("Reason").fill("after all not")
    page.get_by_role("button", name="Take back, send nothing").click()
    page.get_by_text("Taken back. Nothing was sent.").wait_for()
    office.run(approval.session)
    assert office.refund.count == 0


@pytest.mark.parametrize("javascript", [True, False])
def test_several_are_chosen_read_and_decided(javascript: bool, office: Office, opens: Open) -> None:  # UX 19
    three = [office.approval(office.ask(("label", {"order": f"o{n}"}))) for n in range(3)]
    page = opens("/", java_script_enabled=javascript)
    for order in ("o0", "o2"):
        page.get_by_label(f"Choose: Label order {order}").check()
    page.get_by_role("button", name="Review the chosen together").click()
    page.get_by_role("heading", name="Label order: 2 to decide together").wait_for()
    page.get_by_label("Reason").fill("both fine")
    page.get_by_role("button", name="Approve 2: Label order").click()
    page.get_by_role("heading", name="2 approved, 0 left alone").wait_for()
    assert [Approval.objects.get(pk=a.pk).state for a in three] == ["approved", "pending", "approved"]


def test_approve_all_stays_off_until_all_arguments_were_shown(office: Office, opens: Open) -> None:  # UX 6
    body = "the long story. " * 2_000
    two = [office.approval(office.ask(("label", {"order": f"o{n}", "body": body}))) for n in range(2)]
    page = opens(f"/approvals/together/?item={two[0].id}&item={two[1].id}")
    assert page.get_by_role("button", name="Approve 2").is_disabled()
    page.get_by_text("Approve stays off until").wait_for()
    see_all(page)


def test_a_row_is_chosen_without_being_opened_and_opened_without_being_chosen(office: Office, opens: Open) -> None:
    two = [office.approval(office.ask(("label", {"order": f"o{n}"}), expires_in=100 + n)) for n in range(2)]
    page = opens("/")
    page.locator(".choose").first.click()
    assert page.url.endswith("/")
    assert page.get_by_label("Choose: Label order o0").is_checked()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/approvals/{two[0].id}/")


def looks(office: Office) -> list[tuple[str, Callable[[Any], None]]]:
    """Each state of these pages: an address, and what a person does there first."""
    office.unknown()
    held = office.approval(office.ask())
    labels = [office.approval(office.ask(("label", {"order": f"o{n}"}))) for n in range(2)]
    given_up = office.unknown(("refund", {"order": "8"}))
    EffectRecord.objects.filter(pk=given_up.pk).update(abandoned_at=clock.now())
    told = office.approval(office.ask(("refund", {"order": "8"})))
    alice = office.client(office.alice)
    waits, bad, taken, done = (changeable(office) for _ in range(4))
    for approval in (taken, done):
        form = office.form(approval, "change", arguments=CHANGED)
        assert alice.post(f"/approvals/{approval.id}/decide/", form).status_code == 302
    undispatched = f"/approvals/{done.id}/"
    taken.refresh_from_db()
    assert alice.post(f"/approvals/{taken.id}/revoke/", office.form(taken, "", reason="no")).status_code == 302
    together = f"/approvals/together/?item={held.id}&item={labels[0].id}&item={labels[1].id}"

    def nothing(page: Any) -> None: ...

    def start_change(page: Any) -> None:
        change(page, CHANGED)

    def change_badly(page: Any) -> None:
        change(page, "{")
        see_all(page)
        page.get_by_role("button", name="Approve with these changes").click()
        page.get_by_role("heading", name="Your decision was not recorded").wait_for()

    def ask_about_change(page: Any) -> None:
        change(page, CHANGED)
        see_all(page)
        page.get_by_role("button", name="Approve with these changes").click()
        page.get_by_role("heading", name="What you change").wait_for()

    def decide_all(page: Any) -> None:
        see_all(page)
        page.get_by_role("button", name="Approve 2").click()
        page.get_by_role("heading", name="2 approved").wait_for()

    return [
        ("/", nothing),
        (f"/approvals/{held.id}/", nothing),
        (f"/approvals/{told.id}/", nothing),
        (f"/approvals/{waits.id}/", start_change),
        (f"/approvals/{bad.id}/", change_badly),
        (f"/approvals/{waits.id}/", ask_about_change),
        (undispatched, nothing),
        (f"/approvals/{taken.id}/", nothing),
        (f"/sessions/{done.session.session_id}/", nothing),
        (together, nothing),
        (together, decide_all),
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_state_is_accessible_and_fits(width: int, scheme: str, office: Office, opens: Open) -> None:  # UX 20
    page = opens("/", viewport={"width": width, "height": 800}, color_scheme=scheme)
    for address, does in looks(office):
        page.goto(address)
        does(page)
        where = f"{address} {does.__name__}"
        found = Axe().run(page).response["violations"]
        assert [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found] == [], where
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), where
        bar = page.evaluate("document.querySelector('[data-bar]')?.offsetHeight ?? 0")
        assert bar <= 0.25 * 800, f"{where}: the bar takes {bar} px"
        heights = page.evaluate(
            "[...document.querySelectorAll('main button, .choose')].filter(b => b.checkVisibility())"
            ".filter(b => !b.matches('.small')).map(b => b.offsetHeight)"
        )
        assert min(heights, default=44) >= 44, where
