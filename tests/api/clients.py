"""Who speaks to the API in tests: agent clients with a token, people with a web session, nobody."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from cayu_review.models import ApiToken
from cayu_review.models.token import SCOPES
from cayu_review.services.token import create_token
from cayu_runtime.models import Tenant

V1 = "/api/v1"


class ApiClient:
    """One caller. Paths are below /api/v1/; bodies are sent as JSON."""

    def __init__(self, client: Client, **headers: str) -> None:
        self.client = client
        self.headers = headers

    def get(self, path: str, query: dict[str, Any] | None = None) -> Any:
        return self.client.get(f"{V1}/{path}", query, headers=self.headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.post(
            f"{V1}/{path}", {} if body is None else body, "application/json", headers={**self.headers, **headers}
        )


def token_of(user: User, tenant: Tenant, *scopes: str, name: str = "billing-agent") -> tuple[ApiToken, str]:
    return create_token(tenant, name, user, scopes or SCOPES, 30)


def agent_client(user: User, tenant: Tenant, *scopes: str) -> ApiClient:
    _, text = token_of(user, tenant, *scopes)
    return ApiClient(Client(), Authorization=f"Bearer {text}")


def person_client(user: User) -> ApiClient:
    """Django's client sends no CSRF token and is not asked for one; where that is checked, a test says so."""
    client = Client()
    client.force_login(user)
    return ApiClient(client)


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """The body of a refusal, after a look at what every refusal has."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    said: dict[str, Any] = answer.json()
    assert (said["status"], said["code"], said["type"]) == (status, code, f"/api/docs/#{code}")
    assert said["detail"]
    return said
