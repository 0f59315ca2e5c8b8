"""The records in a browser: nothing that the policy blocks, nothing wider than the window, nothing that axe finds."""

import os
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from cayu_review.models import Membership
from cayu_review.services.membership import grant_role
from cayu_runtime.models import Approval, Attachment, Event, Session, ToolCall
from tests.web.office import Office
from tests.web.records import list_of, one_of_each, page_of

pytestmark = [pytest.mark.chromium, pytest.mark.timeout(240)]

PHONE, WIDE = {"width": 360, "height": 740}, {"width": 1280, "height": 900}


@pytest.fixture
def office(transactional_db: None) -> Office:
    return Office()


@pytest.fixture
def addresses(office: Office) -> list[str]:
    """Each kind of page: lists, rows, forms."""
    effect = office.unknown(task="refund order 1042\u200b <b>bold</b>")
    rows = one_of_each(office.north)
    held = Membership.objects.filter(user=office.bob).first()
    assert held is not None
    return [
        "/admin/",
        *map(list_of, (Session, ToolCall, Event)),
        *map(page_of, (effect.session, effect.call, effect, rows[Approval], rows[Attachment], rows[Event])),
        f"{list_of(Session)}?q=nothing",
        "/admin/auth/user/",
        "/admin/auth/user/add/",
        f"/admin/auth/user/{office.bob.pk}/change/",
        f"/admin/auth/user/{office.bob.pk}/password/",
        f"/admin/auth/user/{office.bob.pk}/history/",
        "/admin/cayu_review/membership/",
        "/admin/cayu_review/membership/add/",
        f"/admin/cayu_review/membership/{held.pk}/change/",
        f"/admin/cayu_review/membership/{held.pk}/delete/",
        "/admin/password_change/",
    ]


@pytest.mark.parametrize("size, scheme", [(WIDE, "light"), (PHONE, "dark")], ids=["wide-light", "phone-dark"])
def test_every_page_fits_and_is_accessible(
    size: Any, scheme: str, office: Office, addresses: list[str], browser: Any, live_server: Any, settings: Settings
) -> None:
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = False
    ada = User.objects.create_superuser("ada")
    for role in ("viewer", "auditor", "administrator"):
        grant_role(ada, office.north, role)
    context = browser.new_context(base_url=live_server.url, viewport=size, color_scheme=scheme)
    session = office.client(ada).cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page, problems = context.new_page(), []
    said: list[str] = []  # while a page loads; axe itself reads style sheets in a way that the policy blocks
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
    for number, address in enumerate(addresses):
        said.clear()
        answer = page.goto(address)
        assert answer.status == 200, address
        problems += [f"{address}: {line}" for line in said]
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            problems.append(f"{address} scrolls sideways")
        problems += [f"{address}: {found['id']} {found['nodes'][0]['html'][:200]}" for found in violations(page)]
        if folder := os.environ.get("CAYU_TEST_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"{number:02}-{scheme}-{size['width']}.png", full_page=True)
    context.close()
    assert not problems, "\n".join(problems)


def violations(page: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return found
