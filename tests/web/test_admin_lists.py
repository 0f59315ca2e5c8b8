"""Lists of records: keyset pages that cost the same at any length, search, filters (CASES D10)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cayu_runtime.core.ids import new_id
from cayu_runtime.models import Approval, EffectRecord, Event, Proposal, Session, ToolCall
from tests import rows
from tests.web.office import Office
from tests.web.records import list_of, one_of_each, page_of

SESSIONS = list_of(Session)


@pytest.fixture
def auditor(office: Office) -> Client:
    return office.client(office.person("ada", office.north, "auditor"))


def sessions(office: Office, count: int) -> list[Session]:
    made = [rows.session(tenant=office.north, session_id=f"run-{n:05}", id=new_id(), save=False) for n in range(count)]
    return Session.objects.bulk_create(made)


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200
    return [cells[0].value for _, cells in answer.context["table"].rows]


def queries(client: Client, address: str, **query: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address, query).status_code == 200
    return [query["sql"] for query in captured]


@pytest.mark.timeout(300)  # making 20,000 rows takes most of it
def test_a_list_costs_the_same_at_10_and_at_10_000_rows(office: Office, auditor: Client) -> None:  # D10
    made = sessions(office, 10)
    Event.objects.bulk_create(rows.event(session=made[0], seq=seq, save=False) for seq in range(1, 11))
    wanted: list[tuple[str, dict[str, str]]] = [
        (SESSIONS, {}),
        (SESSIONS, {"q": "run-0000"}),
        (SESSIONS, {"state": "running"}),
        (SESSIONS, {"after": str(made[5].pk)}),
        (SESSIONS, {"before": str(made[5].pk)}),
        (list_of(Event), {}),
        (list_of(Event), {"session": str(made[0].pk)}),
        (list_of(Event), {"q": "run-00000"}),
        (page_of(made[0]), {}),
    ]
    few = [queries(auditor, address, **query) for address, query in wanted]
    Session.objects.bulk_create(
        [rows.session(tenant=office.north, session_id=f"run-0000x{n}", save=False) for n in range(9_990)],
        batch_size=1000,
    )
    more = (rows.event(session=made[0], seq=seq, save=False) for seq in range(11, 10_001))
    Event.objects.bulk_create(more, batch_size=1000)
    many = [queries(auditor, address, **query) for address, query in wanted]
    assert [len(part) for part in many] == [len(part) for part in few]
    for sql in (sql for part in many for sql in part):
        assert "COUNT(" not in sql.upper()
        assert "OFFSET" not in sql.upper()
    reads = [sql for part in many for sql in part if 'FROM "cayu_runtime_event"' in sql]
    assert reads
    assert all("LIMIT" in sql or "WHERE" in sql for sql in reads)


def test_no_page_of_any_table_counts_or_skips(office: Office, auditor: Client) -> None:
    for model, row in one_of_each(office.north).items():
        for address in (list_of(model), page_of(row)):
            for sql in queries(auditor, address):
                assert "COUNT(" not in sql.upper()
                assert "OFFSET" not in sql.upper()


def test_next_and_previous_walk_over_every_row_once_the_newest_first(office: Office, auditor: Client) -> None:
    made = [session.session_id for session in sessions(office, 120)][::-1]
    answer, seen = auditor.get(SESSIONS), []
    assert answer.context["first"] == answer.context["previous"] == ""
    pages = [names(answer)]
    while answer.context["next"]:
        answer = auditor.get(SESSIONS + answer.context["next"])
        pages.append(names(answer))
    seen = [name for page in pages for name in page]
    assert seen == made
    assert list(map(len, pages)) == [50, 50, 20]
    back = auditor.get(SESSIONS + answer.context["previous"])
    assert names(back) == pages[1]
    start = auditor.get(SESSIONS + back.context["previous"])
    assert names(start) == pages[0]
    assert start.context["previous"] == ""
    assert names(auditor.get(SESSIONS + start.context["next"])) == pages[1]


def test_within_a_session_events_and_messages_are_read_from_the_first(office: Office, auditor: Client) -> None:
    session = rows.session(tenant=office.north)
    Event.objects.bulk_create(rows.event(session=session, seq=seq, save=False) for seq in range(60, 0, -1))
    rows.event(session=rows.session(tenant=office.north))
    answer = auditor.get(list_of(Event), {"session": str(session.pk)})
    assert names(answer) == [str(seq) for seq in range(1, 51)]
    rest = auditor.get(list_of(Event) + answer.context["next"])
    assert names(rest) == [str(seq) for seq in range(51, 61)]
    assert rest.context["next"] == ""
    assert names(auditor.get(list_of(Event) + rest.context["previous"])) == names(answer)


def test_search_finds_whole_identifiers_and_beginnings_as_it_says(office: Office, auditor: Client) -> None:
    mine = one_of_each(office.north)
    one_of_each(office.south)
    session, effect, call = mine[Session], mine[EffectRecord], mine[ToolCall]
    found = [
        (Session, session.session_id, session),
        (Session, session.session_id[:-1], session),
        (Session, str(session.pk), session),
        (ToolCall, effect.operation_id, call),
        (ToolCall, str(call.pk), call),
        (EffectRecord, effect.operation_id, effect),
        (EffectRecord, str(effect.dispatch_id), effect),
        (Approval, effect.operation_id, mine[Approval]),
        (Approval, session.session_id, mine[Approval]),
        (Proposal, mine[Proposal].action_id[:5], mine[Proposal]),
    ]
    for model, term, row in found:
        answer = auditor.get(list_of(model), {"q": term})
        assert page_of(row) in [address for address, _ in answer.context["table"].rows], (model, term)
    assert names(auditor.get(SESSIONS, {"q": "nobody"})) == []
    help_text = auditor.get(SESSIONS).content.decode()
    assert "Searched: id (whole), session id (its beginning)." in help_text


def test_a_search_that_fits_many_is_paged_as_well(office: Office, auditor: Client) -> None:
    sessions(office, 70)
    answer = auditor.get(SESSIONS, {"q": "run-"})
    rest = auditor.get(SESSIONS + answer.context["next"])
    assert len(names(answer)) == 50
    assert len(names(rest)) == 20
    assert rest.context["term"] == "run-"


def test_filters_narrow_and_stay_when_turning_the_page(office: Office, auditor: Client) -> None:
    sessions(office, 60)
    rows.session("failed", tenant=office.north, session_id="broken")
    assert names(auditor.get(SESSIONS, {"state": "failed"})) == ["broken"]
    answer = auditor.get(SESSIONS, {"state": "running"})
    assert "broken" not in names(answer)
    assert "state=running" in answer.context["next"]
    assert b"Nothing here fits" in auditor.get(SESSIONS, {"state": "completed"}).content


@pytest.mark.parametrize(
    "query",
    ["after=x", "before=x", "after=%00", "after=1~2", "state=nonsense", "q=%00", "q=" + "x" * 201],
)
def test_an_address_that_cannot_be_read_is_a_400(query: str, auditor: Client) -> None:
    assert auditor.get(f"{SESSIONS}?{query}").status_code == 400


@pytest.mark.parametrize("query", ["after=-1", "after=" + "9" * 40, "after=1.5", "session=1"])
def test_so_is_a_number_that_is_none(query: str, auditor: Client) -> None:
    assert auditor.get(f"{list_of(Event)}?{query}").status_code in (400, 404)


def test_rows_of_one_moment_are_neither_lost_nor_doubled(office: Office, auditor: Client) -> None:
    sessions(office, 60)
    Session.objects.update(created_at=rows.NOW - timedelta(days=1))
    answer = auditor.get(SESSIONS)
    assert len({*names(answer), *names(auditor.get(SESSIONS + answer.context["next"]))}) == 60
