"""What every page and file carries, whoever wrote the view."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

ADMIN_CSS = "/static/admin/css/base.css"


def test_pages_carry_a_policy_without_any_inline_exception(client: Client) -> None:
    policy = client.get("/health/live")["Content-Security-Policy"]
    directives = dict(directive.split(" ", 1) for directive in policy.split("; "))
    assert directives == {
        "default-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "object-src": "'none'",
    }


def test_pages_are_not_framed_sniffed_or_named_to_other_sites(client: Client) -> None:
    response = client.get("/health/live")
    assert response["X-Frame-Options"] == "DENY"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "same-origin"


@pytest.mark.django_db
def test_cookies_are_secure_and_not_for_scripts(client: Client) -> None:
    response = client.get("/accounts/login/")
    cookie = response.cookies["csrftoken"]
    assert cookie["secure"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


def test_static_files_are_served_with_debug_off_and_nothing_collected(client: Client, settings: Any) -> None:
    assert settings.DEBUG is False
    path = finders.find("admin/css/base.css")
    assert path
    response = client.get(ADMIN_CSS)
    assert response.content == Path(path).read_bytes()
    assert response["Content-Type"].startswith("text/css")
    assert client.head(ADMIN_CSS).content == b""
    assert client.get(ADMIN_CSS, headers={"If-None-Match": response["ETag"]}).status_code == 304
    assert client.get(ADMIN_CSS, headers={"Range": "bytes=0-9"}).content == response.content[:10]
    assert client.post(ADMIN_CSS).status_code == 405
