"""A proposal beside its call in a browser: readable at any width and in both schemes; what differs stays off."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from cayu_runtime.models import Proposal
from cayu_runtime.services.session import start_session
from tests.e2e.test_pages import Open, approve, office, opens, read
from tests.reviewing import Operator, act, propose
from tests.web.office import Office

__all__ = ["office", "opens"]
pytestmark = [pytest.mark.chromium, pytest.mark.timeout(120)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_is_accessible_and_fits_and_blocks_what_differs(
    width: int, scheme: str, office: Office, opens: Open
) -> None:  # UX 7
    asker = office.actor(office.bob, office.north)
    agent = Operator([propose()], [act()]).agent
    session = office.run(start_session(office.north, asker, agent=agent.name, text="correct the demo"))
    approval = office.approval(session)
    page = opens(f"/approvals/{approval.id}/", viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.get_by_text("Matches proposal, digest").wait_for()
    page.evaluate("document.querySelector('[data-exact-end]').scrollIntoView({block: 'center'})")
    read(page)
    assert problems_of(page) == []

    Proposal.objects.update(fields={"action_id": "change-0001", "target": "other", "extra": 1})
    page.reload()
    page.get_by_text("It cannot be approved.").first.wait_for()
    assert approve(page).is_disabled()
    page.keyboard.press("a")
    assert page.get_by_role("button", name="Deny").is_enabled()
    assert problems_of(page) == []
    approval.refresh_from_db()
    assert approval.state == "pending"


def problems_of(page: Any) -> list[str]:
    """Rules of accessibility that are broken, and whether the page is wider than its window."""
    found = Axe().run(page).response["violations"]
    fits = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return [*(rule["id"] for rule in found), *([] if fits else ["too wide"])]
