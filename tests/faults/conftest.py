"""One database and one deployment for the tests of a module: they start slowly, and heal by design."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections

from cayu_runtime.services.tenant import create_tenant
from tests.conftest import environment_of_children
from tests.faults.deployment import Deployment
from tests.faults.load import Web


@pytest.fixture(scope="module")
def transactional_db(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The test database, open to all tests of a module and to their processes, and empty after them.

    It stands in for pytest-django's own, which empties it after each test, under the feet of what runs.
    """
    with django_db_blocker.unblock():
        yield
        call_command("flush", verbosity=0, interactive=False, inhibit_post_migrate=True)
        connections.close_all()


@pytest.fixture(scope="module")
def everybody_may() -> Iterator[None]:
    """In this process; a web process has its members."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("django.conf.settings.CAYU_AUTHORITY", "tests.machine.Everybody")
        yield


@pytest.fixture(scope="module")
def deployment(
    transactional_db: None, everybody_may: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    tenant = create_tenant("faults", "Faults Ltd")
    made = Deployment(tmp_path_factory.mktemp("faults"), environment_of_children(), tenant)
    yield made
    made.clean_up()


@pytest.fixture
def web(deployment: Deployment) -> Iterator[Web]:
    made = Web({**deployment.environment, "CAYU_PROCESS": "web"}, deployment.folder / "web.log")
    yield made
    made.kill()
