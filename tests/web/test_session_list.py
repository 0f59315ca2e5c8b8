"""The list of sessions: its filters, what a row tells at one look, and what it costs."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cayu_runtime.core import clock
from tests import rows
from tests.web.office import Office


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


def text(answer: Any) -> str:
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def shown(client: Client, **query: str) -> list[str]:
    return [row.session_id for row, *_ in client.get("/sessions/", query).context["rows"]]


@pytest.fixture
def four(office: Office) -> None:
    """One of each kind, in north: oldest first."""
    bob, alice = f"user:{office.bob.pk}", f"user:{office.alice.pk}"
    for number, (name, state, more) in enumerate(
        [
            ("done", "completed", {"agent": "refunds", "requester": alice}),
            ("stopped", "interrupted", {"interruption": "operator_requested", "stopped_by": "operator_requested"}),
            ("waits", "interrupted", {"interruption": "approval_required"}),
            ("waits-2", "pending", {"requester": alice}),
        ]
    ):
        values: dict[str, Any] = {
            "requester": bob,
            "agent": "desk",
            "created_at": rows.NOW + timedelta(seconds=number),
            **more,
        }
        rows.session(state, tenant=office.north, session_id=name, **values)
    rows.session(tenant=office.south, session_id="waits-elsewhere")


@pytest.mark.parametrize(
    "query, expected",
    [
        ({}, ["waits-2", "waits", "stopped", "done"]),
        ({"status": "completed"}, ["done"]),
        ({"status": "interrupted"}, ["waits", "stopped"]),
        ({"interruption": "operator_requested"}, ["stopped"]),
        ({"agent": "refunds"}, ["done"]),
        ({"mine": "1"}, ["waits-2", "done"]),
        ({"q": "waits"}, ["waits-2", "waits"]),
        ({"q": "w%"}, []),
        ({"q": "waits", "mine": "1"}, ["waits-2"]),
        ({"status": "", "interruption": "", "agent": "", "q": ""}, ["waits-2", "waits", "stopped", "done"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_filters_narrow_the_list(query: dict[str, str], expected: list[str], four: None, alice: Client) -> None:
    assert shown(alice, **query) == expected


def test_a_shared_address_brings_its_filters_along(four: None, alice: Client) -> None:
    page = text(alice.get("/sessions/", {"status": "interrupted", "agent": "gone-by-now", "q": "wa", "mine": "1"}))
    assert '<option value="interrupted" selected>' in page
    assert '<option value="gone-by-now" selected>' in page
    assert 'name="q" value="wa"' in page
    assert 'name="mine" value="1" checked' in page


def test_filters_that_hide_everything_say_so(four: None, alice: Client) -> None:  # UX 18
    page = text(alice.get("/sessions/", {"status": "failed"}))
    assert "These filters hide every session." in page
    assert 'href="/sessions/">Show all</a>' in page
    assert "No session has been started here yet" not in page


def test_an_empty_list_is_not_blamed_on_its_filters(office: Office, alice: Client) -> None:
    for query in ({}, {"status": "failed"}):
        assert "No session has been started here yet." in text(alice.get("/sessions/", query))


@pytest.mark.parametrize("query", [{"status": "lost"}, {"interruption": "tired"}, {"q": "x\0"}, {"q": "x" * 101}])
def test_a_filter_that_does_not_exist_is_refused(query: dict[str, str], alice: Client) -> None:
    assert alice.get("/sessions/", query).status_code == 400


def test_filters_stay_from_page_to_page(office: Office, alice: Client) -> None:
    for number in range(130):
        state = "completed" if number % 2 else "pending"
        rows.session(state, tenant=office.north, created_at=rows.NOW + timedelta(seconds=number // 3))
    seen, address = [], "/sessions/?status=completed"
    while address:
        page = alice.get(address)
        assert {row.state for row, *_ in page.context["rows"]} == {"completed"}
        seen += [row.pk for row, *_ in page.context["rows"]]
        address = f"/sessions/?{page.context['next']}" if page.context["next"] else ""
    assert len(seen) == len(set(seen)) == 65
    assert "?status=completed" in page.content.decode()


def test_who_may_decide_sees_what_waits_for_them(office: Office, alice: Client) -> None:
    office.ask()
    assert "for you</span>" in text(alice.get("/sessions/"))
    assert "for you</span>" not in text(office.client(office.bob).get("/sessions/"))
    office.ask(by=office.alice, task="her own")
    page = text(alice.get("/sessions/"))
    assert page.count("for you</span>") == 1
    assert page.index("her own") < page.index("for you</span>")


def test_a_session_that_waits_for_its_model_says_when_it_is_tried_again(office: Office, alice: Client) -> None:
    later = clock.now() + timedelta(seconds=100)
    session = rows.session("pending", tenant=office.north, model_failures=2, runnable_at=later)
    page = text(alice.get("/sessions/"))
    assert '<span class="words again">Waits for its model, which gave no answer</span>' in page
    assert "again in <time" in page
    assert "data-until>1 min</time>" in page
    page = text(alice.get(f"/sessions/{session.session_id}/"))
    assert "gave no answer 2 times in a row; a worker tries again by itself at <time" in page


def test_the_list_costs_the_same_queries_at_3_and_at_60_rows(office: Office, alice: Client) -> None:  # D10
    costs = []
    for more in (3, 57):
        for _ in range(more):
            rows.approval(session=rows.session("interrupted", tenant=office.north, interruption="approval_required"))
        with CaptureQueriesContext(connection) as queries:
            alice.get("/sessions/", {"status": "interrupted"})
        costs.append(len(queries))
        statements = " ".join(query["sql"].upper() for query in queries)
        assert "COUNT(" not in statements
        assert "OFFSET" not in statements
    assert costs[0] == costs[1] <= 7
