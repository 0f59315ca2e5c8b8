"""What every page keeps to: no inline script or style, one name for each link, the look also when something fails."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.test import Client, RequestFactory
from django.views.defaults import server_error

from tests.web.office import Office


class Page(HTMLParser):
    """The parts of a page that these tests ask about."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.files: list[str] = []
        self.ids: list[str] = []
        self.labelled: set[str] = set()
        self.fields: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "style" or "style" in given or (tag == "script" and "src" not in given):
            self.inline.append(tag)
        self.inline += [name for name in given if name.startswith("on")]
        self.files += [given[name] or "" for name in ("src", "href") if (given.get(name) or "").startswith("/static/")]
        self.ids += [given["id"] or ""] if "id" in given else []
        if tag == "label" and given.get("for"):
            self.labelled.add(given["for"] or "")
        if tag in ("textarea", "select") or (tag == "input" and given.get("type") in ("text", "password")):
            self.fields.add(given.get("id") or "")


@pytest.fixture
def addresses(office: Office) -> list[str]:
    effect = office.unknown()
    session = office.ask(("look", {"order": "1"}), ("refund", {"order": "2", "n": 5}))
    done = office.ask(("look", {"order": "1"}), gated=())
    own = office.ask(by=office.alice)
    return [
        "/", "/reconcile/", "/sessions/", "/start/", "/nowhere/", "/?after=x",
        f"/effects/{effect.id}/", f"/sessions/{effect.session.session_id}/", f"/sessions/{session.session_id}/",
        f"/sessions/{done.session_id}/", f"/approvals/{office.approval(session).id}/",
        f"/approvals/{office.approval(own).id}/", f"/approvals/{effect.call.approvals.get().id}/",
    ]  # fmt: skip


def test_no_page_has_inline_script_or_style_and_all_its_files_exist(office: Office, addresses: list[str]) -> None:
    client = office.client(office.alice)
    texts = [client.get(address).content.decode() for address in addresses]
    texts.append(Client().get("/accounts/login/").content.decode())
    texts.append(office.client(office.dave).get("/").content.decode())
    for text in texts:
        page = Page(text)
        assert page.inline == []
        assert page.files
        assert all(finders.find(file.removeprefix("/static/")) for file in page.files)
        assert len(page.ids) == len(set(page.ids))
        assert page.fields <= page.labelled
        assert text.count("<h1") == 1
        assert '<html lang="en">' in text


def test_a_session_counts_its_queries_by_page_not_by_call(
    office: Office, django_assert_max_num_queries: object
) -> None:
    client = office.client(office.alice)
    short = office.ask(("refund", {"order": "1"}))
    long = office.ask(*[("refund", {"order": str(number)}) for number in range(30)])
    for session in (short, long):
        with django_assert_max_num_queries(16):  # type: ignore[operator]
            client.get(f"/sessions/{session.session_id}/")


@pytest.mark.parametrize("name", ["400", "403", "403_csrf", "404", "405", "500"])
def test_error_pages_have_the_look_and_a_way_on(name: str) -> None:
    text = (Path(settings.BASE_DIR) / "templates" / f"{name}.html").read_text()
    assert '{% extends "error.html" %}' in text


def test_a_fault_of_ours_is_told_without_details() -> None:
    answer = server_error(RequestFactory().get("/"))
    assert answer.status_code == 500
    text = answer.content.decode()
    assert "The fault is on our side" in text
    assert "/static/css/base.css" in text
    assert Page(text).inline == []


def test_a_page_that_is_not_there(office: Office) -> None:
    answer = office.client(office.alice).get("/nowhere/")
    assert answer.status_code == 404
    assert b"There is no such page" in answer.content


def test_a_method_that_is_refused_gets_a_page_too(office: Office) -> None:
    answer = office.client(office.alice).post("/sessions/")
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")
    assert b"This address is not a page" in answer.content
    assert b"/static/css/base.css" in answer.content
    assert answer["Content-Security-Policy"]


STATIC = Path(settings.BASE_DIR) / "static"


@pytest.mark.parametrize("path", sorted(STATIC.rglob("*.css")), ids=lambda path: path.name)
def test_no_file_fetches_from_elsewhere(path: Path) -> None:
    assert not re.search(r"@import|url\(|https?://", path.read_text())


def test_motion_and_colour_follow_the_system() -> None:
    css = (STATIC / "css" / "base.css").read_text()
    assert "prefers-color-scheme: dark" in css
    assert "prefers-reduced-motion" in css
