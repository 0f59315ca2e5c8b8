"""What the description says is what the API does, tried by schemathesis for everybody who may call.

Bounded: some cases for each operation, half of them with ids that exist. On PostgreSQL alone, which
is the stricter one: it refuses NUL and numbers that are out of range.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import schemathesis
from django.core import signals
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django.fixtures import Settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from cayu_runtime.models import Session
from tests import rows
from tests.api.clients import token_of
from tests.web.office import Office

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(180)]
EXAMPLES = 5
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
# A request that fits the schema may still name an agent, a tool or a session that there is not, or come too late.
LEFT_OUT = [checks.positive_data_acceptance]
# Not ready is 503, as described: no worker runs in this test.
NOT_READY = [*LEFT_OUT, not_a_server_error]


@pytest.fixture
def ids(office: Office, settings: Settings) -> dict[str, str]:
    """Something that exists for each parameter of a path."""
    settings.CAYU_API_READS = settings.CAYU_API_WRITES = 0
    session = office.ask()
    approval = office.approval(session)
    rows.proposal(session=session, tenant=office.north, recorded_by=approval.call, action_id="a-1")
    return {
        "session_id": session.session_id,
        "approval_id": str(approval.id),
        "call_id": str(approval.call_id),
        "action_id": "a-1",
        "question_id": str(rows.question(session=session, tenant=office.north, call=approval.call).id),
    }


@pytest.fixture(params=["agent", "person", "nobody"])
def headers(request: pytest.FixtureRequest, office: Office) -> dict[str, str]:
    if request.param == "agent":
        return {"Authorization": f"Bearer {token_of(office.bob, office.north)[1]}"}
    if request.param == "nobody":
        return {}
    client = Client()
    client.force_login(office.alice)
    client.get("/start/")
    cookies = "; ".join(f"{name}={cookie.value}" for name, cookie in client.cookies.items())
    return {"Cookie": cookies, "X-CSRFToken": client.cookies["csrftoken"].value}


@contextmanager
def connection_of_the_test() -> Iterator[None]:
    """Requests run in the test's own transaction, so none of them closes the connection."""
    around = (signals.request_started, signals.request_finished)
    for signal in around:
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in around:
            signal.connect(close_old_connections)


def operations() -> Iterator[Any]:
    schema = schemathesis.openapi.from_wsgi("/api/schema/", get_wsgi_application())
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        yield found.ok()


def test_every_answer_is_one_that_is_described(ids: dict[str, str], headers: dict[str, str]) -> None:
    tried = []
    with connection_of_the_test():
        for operation in operations():
            takes_something = bool([*operation.iter_parameters(), *operation.body])
            for mode in MODES if takes_something else MODES[:1]:  # what takes nothing can't be asked wrongly
                tried.append(operation.label)
                explore(operation, mode, ids, headers)
    assert len(set(tried)) >= 18
    assert Session.objects.exists()


def explore(operation: Any, mode: GenerationMode, ids: dict[str, str], headers: dict[str, str]) -> None:
    @given(case=operation.as_strategy(generation_mode=mode), real=st.booleans())
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def run(case: Any, real: bool) -> None:
        if real and mode is GenerationMode.POSITIVE and case.path_parameters:
            case.path_parameters = {name: ids[name] for name in case.path_parameters}
        left_out = NOT_READY if operation.path == "/health/ready" else LEFT_OUT
        case.call_and_validate(headers=headers, excluded_checks=left_out)

    run()
