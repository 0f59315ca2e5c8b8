"""Sign-in by a provider in a browser: a mock provider as a process of its own, and one that lies."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session as WebSession
from django.utils import timezone

from cayu_review.oidc.provider import forget_documents
from cayu_runtime.models import AuditEntry, Decision
from cayu_runtime.services.tenant import set_step_up
from tests.e2e.test_pages import office, read
from tests.lying_provider import ANOTHER, LyingProvider
from tests.web.office import Office

__all__ = ["office"]
pytestmark = [pytest.mark.chromium, pytest.mark.timeout(120)]

PEOPLE = (
    {"sub": "ann", "name": "Ann Approver", "groups": ["staff", "approvers"]},
    {"sub": "vic", "name": "Vic Viewer", "groups": ["staff"]},
)
ROLES = [
    {"claim": "groups", "value": "approvers", "tenant": "north", "role": "approver"},
    {"claim": "groups", "value": "staff", "tenant": "north", "role": "viewer"},
]


@pytest.fixture
def mock_provider() -> Iterator[str]:
    """The address of an oidc-provider-mock, which knows these people and asks nobody for a password."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    people = [word for person in PEOPLE for word in ("--user-claims", json.dumps(person))]
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), *people]
    process = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            assert process.poll() is None
            try:
                httpx.get(address, trust_env=False)
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        yield address
    finally:
        process.kill()
        process.wait()


Configure = Callable[..., None]


@pytest.fixture
def configure(settings: Any) -> Iterator[Configure]:
    """Set sign-in up as the environment would."""

    def by(**given: Any) -> None:
        settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = False
        settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, "cayu_review.oidc.backend.OidcBackend"]
        for name, value in given.items():
            setattr(settings, name, value)

    yield by
    forget_documents()


@pytest.fixture
def at_mock(configure: Configure, mock_provider: str) -> None:
    configure(
        CAYU_OIDC_ISSUER=mock_provider,
        CAYU_OIDC_CLIENT_ID="cayu",
        CAYU_OIDC_CLIENT_SECRET="known to both",
        CAYU_OIDC_NAME="Example ID",
        CAYU_OIDC_ROLES=json.dumps(ROLES),
    )


@pytest.fixture
def visit(browser: Any, live_server: Any) -> Iterator[Callable[..., Any]]:
    """A page of a profile of its own, not signed in. At the end no page may have complained."""
    contexts, problems = [], []

    def open_page(**options: Any) -> Any:
        contexts.append(browser.new_context(base_url=live_server.url, reduced_motion="reduce", **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if "Security Policy" in said.text else None)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def sign_in(page: Any, sub: str) -> None:
    page.get_by_role("button", name="Sign in with Example ID").click()
    at_provider(page, sub)


def at_provider(page: Any, sub: str) -> None:
    page.get_by_role("button", name=sub, exact=True).first.click()


def grow_old() -> None:
    """An hour passes for every sign-in that is under way."""
    for key in WebSession.objects.values_list("session_key", flat=True):
        session = SessionStore(key)
        if "cayu_authenticated_at" in session:
            session["cayu_authenticated_at"] = (timezone.now() - timedelta(hours=1)).isoformat()
            session.save()


@pytest.mark.parametrize("scripts", [True, False])
def test_sign_in_roles_step_up_and_sign_out(
    office: Office, at_mock: None, visit: Callable[..., Any], scripts: bool, live_server: Any
) -> None:
    set_step_up(office.north, True)
    approval = office.approval(office.ask())
    page = visit(java_script_enabled=scripts)
    page.goto(f"/approvals/{approval.id}/")
    sign_in(page, "ann")
    page.get_by_role("heading", name="Refund order 1042").wait_for()
    ann = User.objects.get(first_name="Ann Approver")
    assert sorted(row.role for row in ann.memberships.all()) == ["approver", "viewer"]

    grow_old()
    page.reload()
    page.get_by_text("you are asked to sign in again").wait_for()
    page.get_by_label("Reason").fill("checked with the customer")
    if scripts:
        read(page)
    page.get_by_role("button", name="Approve and refund order 1042").click()
    page.get_by_role("button", name="Yes, refund order 1042").click()
    at_provider(page, "ann")
    page.get_by_role("heading", name="Refund order 1042").wait_for()
    assert page.url == f"{live_server.url}/approvals/{approval.id}/"
    assert page.get_by_label("Reason").input_value() == "checked with the customer"
    assert not Decision.objects.exists()
    if scripts:
        read(page)
    page.get_by_role("button", name="Approve and refund order 1042").click()
    page.get_by_role("button", name="Yes, refund order 1042").click()
    page.get_by_text("Approved. Not dispatched yet.").wait_for()
    assert Decision.objects.get().actor_name == "Ann Approver"

    page.locator(".account summary").click()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="End session").click()
    page.get_by_role("button", name="Sign in with Example ID").wait_for()
    page.goto("/")
    assert "/accounts/login/" in page.url
    kinds = [entry.type for entry in AuditEntry.objects.filter(tenant=office.north, type__startswith="sign_in.")]
    assert sorted(kinds) == ["sign_in.ended", "sign_in.succeeded", "sign_in.succeeded"]


def test_who_may_only_view_sees_and_decides_nothing(office: Office, at_mock: None, visit: Callable[..., Any]) -> None:
    approval = office.approval(office.ask())
    page = visit()
    page.goto(f"/approvals/{approval.id}/")
    sign_in(page, "vic")
    page.get_by_text("Deciding needs the role approver").wait_for()
    assert page.get_by_role("button", name="Approve and").is_disabled()


def test_two_tabs_that_expired_come_back_each_to_its_page(
    office: Office, at_mock: None, visit: Callable[..., Any]
) -> None:
    one = visit()
    other = one.context.new_page()
    one.goto("/sessions/")
    other.goto("/start/")
    for page in (one, other):
        page.get_by_role("button", name="Sign in with Example ID").click()
        page.get_by_role("button", name="ann", exact=True).first.wait_for()
    at_provider(other, "ann")
    other.wait_for_url("**/start/")
    at_provider(one, "ann")
    one.wait_for_url("**/sessions/")


def test_who_says_no_at_the_provider_reads_so(office: Office, at_mock: None, visit: Callable[..., Any]) -> None:
    page = visit()
    page.goto("/accounts/login/")
    page.get_by_role("button", name="Sign in with Example ID").click()
    page.get_by_role("button", name="ann", exact=True).first.wait_for()
    state = page.url.split("state=")[1].split("&")[0]
    page.goto(f"/accounts/oidc/callback/?error=access_denied&state={state}")
    page.get_by_text("The identity provider did not sign you in.").wait_for()
    assert Axe().run(page).response["violations"] == []
    page.get_by_role("button", name="Try again with Example ID").click()
    at_provider(page, "vic")
    page.get_by_role("heading", name="To approve").or_(page.get_by_text("Nothing waits")).first.wait_for()


LIES: dict[str, tuple[Callable[[LyingProvider], Any], str]] = {
    "iss": (lambda p: p.claims.update(iss=ANOTHER), "another identity provider"),
    "aud": (lambda p: p.claims.update(aud="another"), "made for another application"),
    "azp": (lambda p: p.claims.update(azp="another"), "given to another application"),
    "sub": (lambda p: p.userinfo.update(sub="s-2"), "different people"),
    "nonce": (lambda p: p.claims.update(nonce="another"), "does not belong to the sign-in"),
    "kid": (lambda p: p.sign_with_another_key("two"), "does not publish"),
    "exp": (lambda p: p.claims.update(exp=int(time.time()) - 600), "had expired"),
}


def test_a_person_reads_why_a_lie_was_refused(
    office: Office, configure: Configure, visit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    people = User.objects.count()
    for tell, sentence in LIES.values():
        with LyingProvider().running() as provider:
            configure(**provider.settings)
            tell(provider)
            page = visit()
            page.goto("/sessions/")
            page.get_by_role("button", name="Sign in with Example ID").click()
            page.get_by_role("alert").get_by_text(sentence).wait_for()
            page.goto("/sessions/")
            page.get_by_role("button", name="Sign in with Example ID").wait_for()
    assert User.objects.count() == people


def test_the_pages_of_the_way_are_clean(
    office: Office, configure: Configure, visit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    set_step_up(office.north, True)
    approval = office.approval(office.ask())
    with LyingProvider().running() as provider:
        configure(**provider.settings)
        page = visit(viewport={"width": 360, "height": 700})
        page.route(f"{provider.issuer}/**", lambda route: route.fulfill(status=204))  # the browser stays where it is
        page.goto("/accounts/login/")
        assert Axe().run(page).response["violations"] == []
        page.get_by_role("button", name="Sign in with Example ID").click()
        page.get_by_role("heading", name="To Example ID").wait_for()
        assert Axe().run(page).response["violations"] == []
        assert page.get_by_role("link", name="Go to Example ID").get_attribute("href").startswith(provider.issuer)
        page.goto("/accounts/login/")
        page.get_by_label("Name").fill("alice")
        page.get_by_label("Password").fill("alice's word")
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_role("link", name="Queue").first.wait_for()
        grow_old()
        page.goto(f"/approvals/{approval.id}/")
        page.locator("[data-exact-end]").scroll_into_view_if_needed()
        read(page)
        page.get_by_role("button", name="Approve and").click()
        page.get_by_role("button", name="Yes, refund").click()
        page.get_by_role("heading", name="Sign in again to decide").wait_for()
        assert Axe().run(page).response["violations"] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.get_by_label("Password").fill("alice's word")
        page.get_by_role("button", name="Go on").click()
        page.get_by_role("heading", name="Refund order 1042").wait_for()
