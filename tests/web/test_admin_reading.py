"""What a record shows: every column, nothing prettified, links up and down, and no key."""

import re
from html import unescape
from itertools import pairwise
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client

from cayu_runtime.models import (
    Approval,
    Attachment,
    Attempt,
    Decision,
    EffectRecord,
    Event,
    Proposal,
    Session,
    ToolCall,
    ToolRound,
)
from tests import rows
from tests.web.office import Office
from tests.web.records import Rows, list_of, one_of_each, page_of


@pytest.fixture
def records(office: Office) -> Rows:
    return one_of_each(office.north)


@pytest.fixture
def auditor(office: Office) -> Client:
    return office.client(office.person("ada", office.north, "auditor"))


def read(client: Client, row: Any) -> str:
    answer = client.get(page_of(row))
    assert answer.status_code == 200
    return answer.content.decode()


def links(client: Client, row: Any) -> set[str]:
    return set(re.findall(r'href="([^"]+)"', read(client, row)))


UP = [
    (ToolRound, Session),
    (ToolCall, ToolRound),
    (ToolCall, Session),
    (EffectRecord, ToolCall),
    (Attempt, EffectRecord),
    (Approval, ToolCall),
    (Decision, Approval),
    (Proposal, ToolCall),
    (Attachment, ToolCall),
    (Attachment, EffectRecord),
    (Event, Session),
]


@pytest.mark.parametrize("lower, upper", UP, ids=lambda model: model.__name__)
def test_records_are_linked_both_ways(lower: Any, upper: Any, records: Rows, auditor: Client) -> None:
    assert page_of(records[upper]) in links(auditor, records[lower])
    assert page_of(records[lower]) in links(auditor, records[upper])


def test_from_the_tenant_down_to_the_decision_and_up_again(records: Rows, auditor: Client) -> None:
    way = [records[model] for model in (Session, ToolRound, ToolCall, Approval, Decision)]
    assert page_of(records[Session]) in links(auditor, records[Session].tenant)
    for upper, lower in pairwise(way):
        assert page_of(lower) in links(auditor, upper)
        assert page_of(upper) in links(auditor, lower)


def test_every_column_has_its_line_and_only_two_are_hidden(records: Rows, auditor: Client) -> None:
    hidden = set()
    for model, row in records.items():
        answer = auditor.get(page_of(row))
        shown = {line.label for line in answer.context["lines"]}
        hidden |= {
            f"{model.__name__}.{field.name}" for field in model._meta.concrete_fields if field.verbose_name not in shown
        }
    assert hidden == {"EffectRecord.idempotency_key", "Attachment.body"}


def test_the_key_of_an_effect_is_shown_nowhere_and_cannot_be_searched_out(office: Office, auditor: Client) -> None:
    effect = office.unknown()
    session, key = effect.session, effect.idempotency_key
    reader = admin.site.get_model_admin(EffectRecord)
    about = [session, effect, effect.call, effect.call.round, *effect.attempts.all(), *session.event_set.all()]
    for row in about:
        assert key not in read(auditor, row)
    every = len(auditor.get(list_of(EffectRecord)).context["table"].rows)
    for query in ({"idempotency_key": "x"}, {"idempotency_key__startswith": "x"}, {"_to_field": "idempotency_key"}):
        answer = auditor.get(list_of(EffectRecord), query)
        assert len(answer.context["table"].rows) == every, "a column that is no filter filtered"
    assert auditor.get(list_of(EffectRecord), {"q": key}).context["table"].rows == []
    assert key not in auditor.get(list_of(EffectRecord)).content.decode()
    assert not hasattr(reader, "inlines") or not reader.inlines


def test_arguments_stand_verbatim_with_their_types_and_what_cannot_be_seen(office: Office, auditor: Client) -> None:
    call = rows.call(
        "prepared",
        session=rows.session(tenant=office.north),
        arguments={"amount": 5000, "order": "5000", "note": "<script>alert(1)</script>", "to": "a\u202eb\u200b"},
        target="x\u200b<b>",
    )
    page = read(auditor, call)
    text = unescape(re.sub(r"<[^>]+>", "", page))
    assert '"5000"' in text
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\u202e" not in page
    assert "\u200b" not in page
    assert "\\u202e" in text
    assert "\\u200b" in text
    assert "\u200b" not in auditor.get(list_of(ToolCall)).content.decode()


def test_digests_are_hex_and_moments_exact(records: Rows, auditor: Client) -> None:
    page = read(auditor, records[ToolCall])
    assert rows.DIGEST.hex() in page
    assert "UTC</time>" in page


def test_events_are_read_from_the_first_with_their_hash(office: Office, auditor: Client) -> None:
    session = rows.session(tenant=office.north)
    for seq in (3, 1, 2):
        rows.event(session=session, seq=seq, hash=bytes([seq]) * 32)
    page = read(auditor, session)
    places = [page.index((bytes([seq]) * 32).hex()) for seq in (1, 2, 3)]
    assert places == sorted(places)


def test_a_long_list_below_a_record_is_cut_and_says_where_the_rest_is(office: Office, auditor: Client) -> None:
    session = rows.session(tenant=office.north)
    for seq in range(1, 25):
        rows.event(session=session, seq=seq, type=f"kind.{seq}.")
    page = read(auditor, session)
    assert "kind.20." in page
    assert "kind.21." not in page
    rest = f"{list_of(Event)}?session={session.pk}"
    assert f'href="{rest}">There are more' in page
    assert "kind.24." in auditor.get(rest).content.decode()


def test_an_attachment_leads_to_its_file_and_does_not_show_it(records: Rows, auditor: Client) -> None:
    attachment = records[Attachment]
    assert f"/attachments/{attachment.pk}/" in links(auditor, attachment)
    assert auditor.get(f"/attachments/{attachment.pk}/").content == b"done"


def test_the_pages_of_the_queue_are_linked(records: Rows, auditor: Client) -> None:
    assert f"/sessions/{records[Session].session_id}/" in links(auditor, records[Session])
    assert f"/effects/{records[EffectRecord].pk}/" in links(auditor, records[EffectRecord])
    assert f"/approvals/{records[Approval].pk}/" in links(auditor, records[Approval])


def test_an_attempt_of_a_real_run_is_found_from_its_session(office: Office, auditor: Client) -> None:
    effect = office.unknown()
    assert page_of(effect.call) in links(auditor, effect.session)
    assert page_of(effect) in links(auditor, effect.call)
    attempt = Attempt.objects.get(effect=effect)
    assert page_of(attempt) in links(auditor, effect)
    decision = Decision.objects.get(approval__call=effect.call)
    assert page_of(decision) in links(auditor, decision.approval)
