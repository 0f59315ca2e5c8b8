"""The description and its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

from cayu_runtime import errors
from cayu_runtime.http.document import document
from cayu_runtime.http.problem import CODES
from tests.api.test_two_tenants import routes

DOCS = Path(__file__).parent.parent.parent / "docs" / "api.md"


def test_every_route_of_the_api_is_described(client: Client) -> None:
    described = {re.sub(r"{[^}]+}", "*", path) for path in document()["paths"]}
    registered = {
        re.sub(r"<[^>]+>", "*", route.path) for route in routes() if route.path.startswith("/api/v1/") and
        "rest" not in route.names
    }  # fmt: skip
    assert described == registered | {"/health/live", "/health/ready"}
    assert client.get("/api/schema/").json()["openapi"].startswith("3.")


def test_every_operation_says_how_it_refuses() -> None:
    for path, methods in document()["paths"].items():
        for method, said in methods.items():
            assert said["summary"]
            if path.startswith("/health/"):
                continue  # refuses nobody
            statuses = set(said["responses"])
            assert {"400", "401", "403", "429"} <= statuses, (method, path)
            assert "{" not in path or "404" in statuses, (method, path)


def codes_of(kind: type[errors.CayuError]) -> set[str]:
    return {kind.code, *(code for child in kind.__subclasses__() for code in codes_of(child))}


def test_every_code_has_a_status_and_stands_in_the_docs() -> None:
    assert codes_of(errors.CayuError) - {"error"} <= set(CODES)
    rows = re.findall(r"^\| (\d{3}) \| `([a-z_]+)` \|", DOCS.read_text(), re.MULTILINE)
    assert {code: int(status) for status, code in rows} == {code: said.status for code, said in CODES.items()}


@pytest.mark.django_db
def test_the_page_needs_no_script_and_nothing_from_elsewhere(client: Client) -> None:
    page = client.get("/api/docs/")
    assert page.status_code == 200
    assert "default-src 'self'" in page["Content-Security-Policy"]
    text = page.content.decode()
    for code in CODES:
        assert f'id="{code}"' in text
    for methods in document()["paths"].values():
        for said in methods.values():
            assert f'id="{said["operationId"]}"' in text
    assert "<script" not in text
    assert " style=" not in text
    addresses = re.findall(r'(?:href|src)="([^"]*)"', text)
    assert addresses
    assert all(address.startswith(("/", "#")) for address in addresses)
