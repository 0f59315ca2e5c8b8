"""Somebody at a browser who signs in by the provider: the steps of the way, one by one."""

from __future__ import annotations

from typing import Any

import httpx
from django.contrib.auth.models import User
from django.test import Client

from tests.lying_provider import LyingProvider


class Visitor:
    def __init__(self, provider: LyingProvider, client: Client | None = None) -> None:
        self.provider = provider
        self.client = client or Client()

    def begin(self, **form: str) -> str:
        """The sign-in page's button; where it leads."""
        page = self.client.post("/accounts/oidc/", form)
        assert page.status_code == 200, page
        return str(page.context["address"])

    def at_provider(self, address: str) -> str:
        """The provider's answer: the path here to which it sends the browser back."""
        answer = httpx.get(address, trust_env=False)
        assert answer.status_code == 302, answer.text
        return str(httpx.URL(answer.headers["Location"]).raw_path.decode())

    def back(self, path: str) -> Any:
        return self.client.get(path)

    def signs_in(self, **form: str) -> Any:
        return self.back(self.at_provider(self.begin(**form)))

    @property
    def person(self) -> Any:
        """The signed-in account, or None."""
        key = self.client.session.get("_auth_user_id")
        return User.objects.get(pk=key) if key is not None else None
