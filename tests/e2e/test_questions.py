"""A question as people live it: asked by a real worker, kept across a kill of everything, answered in a browser."""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from cayu_runtime.models import Question
from tests.e2e.conftest import Up
from tests.e2e.test_pages import Open, office, opens
from tests.e2e.test_spine import Person, people, refunds
from tests.web.office import Office

__all__ = ["office", "opens", "people"]
pytestmark = [pytest.mark.chromium, pytest.mark.timeout(200)]


def opens_question(person: Person, text: str) -> None:
    """Wait until it stands in the list, and open it."""
    link = person.page.get_by_role("link", name=text, exact=True)
    for _ in range(60):
        person.page.goto(f"{person.up.web}/questions/")
        if link.count():
            link.click()
            person.page.get_by_role("heading", name="Agent refunds asks", level=1).wait_for()
            return
        person.page.wait_for_timeout(250)
    raise AssertionError(f"{text} never came to the list: {person.page.inner_text('main')}")


def answers(person: Person, text: str) -> None:
    person.page.get_by_label("Your answer").fill(text)
    person.page.get_by_role("button", name="Answer and let the agent go on").click()
    person.page.get_by_text("Answered. The agent is told.", exact=False).wait_for()


def recorded(up: Up, query: str) -> list[Any]:
    with closing(sqlite3.connect(up.var / "cayu.sqlite3")) as file:
        return file.execute(query).fetchall()


def test_what_an_agent_asks_outlives_every_process_and_its_answer_is_gone_on_with(
    start_up: Callable[[], Up], people: Callable[[Up], tuple[Person, Person]]
) -> None:
    up = start_up().until_ready()
    requester, approver = people(up)
    session = requester.asks("refund order 7 because late")
    requester.sees(session, "Waits for an answer")
    opens_question(approver, "How much is to be refunded for order 7?")
    asked = recorded(up, "SELECT id, digest, state FROM cayu_runtime_question")
    assert len(asked) == 1
    assert asked[0][2] == "pending"

    for person in (requester, approver):
        person.page.goto("about:blank")
    for pid in [up.process.pid, *up.children]:
        os.kill(pid, signal.SIGKILL)
    up.process.wait(10)
    again = start_up().until_ready()
    assert recorded(again, "SELECT id, digest, state FROM cayu_runtime_question") == asked

    # Who asked for the session answers; the approver, whose page is older, is told.
    opens_question(approver, "How much is to be refunded for order 7?")
    opens_question(requester, "How much is to be refunded for order 7?")
    answers(requester, "3.50")
    approver.page.get_by_label("Your answer").fill("4.00")
    approver.page.get_by_role("button", name="Answer and let the agent go on").click()
    approver.page.get_by_text("requester answered", exact=False).wait_for()
    assert "4.00" in approver.page.inner_text("main")
    approver.problems = [said for said in approver.problems if "409" not in said]

    approver.approves("Refund order 7")
    requester.sees(session, "Order 7: 3.50 was refunded")
    assert refunds(again) == [("7", "3.50")]
    assert recorded(again, "SELECT state, answered_by_name FROM cayu_runtime_question") == [("answered", "requester")]
    assert recorded(again, "SELECT state FROM cayu_runtime_session") == [("completed",)]


def test_both_kinds_are_answered_without_javascript(office: Office, opens: Open) -> None:  # UX 20
    which = office.question("Which?", choices=["the red one", "the blue one"], expires_in_hours=1)
    how_much = office.question("How much?")
    page = opens("/questions/", java_script_enabled=False)
    page.get_by_role("link", name="Which?", exact=True).click()
    page.get_by_role("radio", name="the blue one").check()
    page.get_by_role("button", name="Answer and let the agent go on").click()
    page.wait_for_url(f"**/questions/{how_much.id}/")
    page.get_by_label("Your answer").fill("5")
    page.get_by_role("button", name="Answer and let the agent go on").click()
    page.get_by_text("Nothing to answer.").wait_for()
    found = Question.objects.order_by("expires_at").values_list("id", "answer", "answered_by_name")
    assert list(found) == [(which.id, "the blue one", "alice"), (how_much.id, "5", "alice")]


def test_the_list_is_walked_by_keys_and_esc_comes_back_to_the_row(office: Office, opens: Open) -> None:  # UX 3
    office.question("first?", expires_in_hours=1)
    second = office.question("second?", expires_in_hours=2)
    page = opens("/questions/")
    for key in ("j", "j", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(f"**/questions/{second.id}/")
    page.keyboard.press("Escape")
    page.wait_for_url(f"**/questions/#r-{second.id}")
    page.wait_for_function("document.activeElement.textContent.trim() == 'second?'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_pages_hold_the_rules_of_access_and_fit(
    scheme: str, width: int, office: Office, opens: Open
) -> None:  # UX 20
    choices = ["The whole amount", "Only the broken part", "x" * 200]
    chosen = office.question("Refund all of it?\n\nThe parcel came late." + " y" * 300, choices=choices)
    words = office.question("How much?", expires_in_hours=0.1)
    done = office.question("Which order?")
    form = {"text": "Order 1042,\n" + "z" * 300, "digest": done.digest.hex()}
    assert office.client(office.erin).post(f"/questions/{done.id}/answer/", form).status_code == 302
    others = [office.person("vic", office.north, "viewer"), office.alice]
    for who in others:
        page = opens("/questions/", who, color_scheme=scheme, viewport={"width": width, "height": 700})
        for address in ("/questions/", *(f"/questions/{question.id}/" for question in (chosen, words, done))):
            page.goto(address)
            found = Axe().run(page).response["violations"]
            assert [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found] == [], address
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
    page.goto(f"/questions/{chosen.id}/")
    heights = "[...document.querySelectorAll('[data-bar] button, .choice')].map(one => one.offsetHeight)"
    assert min(page.evaluate(heights)) >= 44
