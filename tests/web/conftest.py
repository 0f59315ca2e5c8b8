from collections.abc import Iterator
from typing import Any

import pytest

from cayu_review.oidc.provider import forget_documents
from tests.lying_provider import LyingProvider
from tests.web.office import Office
from tests.web.visitor import Visitor


@pytest.fixture
def office(db: None) -> Office:
    return Office()


@pytest.fixture
def provider(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[LyingProvider]:
    """A provider that answers, set up here beside passwords. It does not lie until told."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    with LyingProvider().running() as running:
        for name, value in running.settings.items():
            setattr(settings, name, value)
        settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, "cayu_review.oidc.backend.OidcBackend"]
        yield running
    forget_documents()


@pytest.fixture
def visitor(provider: LyingProvider) -> Visitor:
    return Visitor(provider)
