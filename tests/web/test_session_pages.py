"""Sessions: the list, one session's conversation and events, and the page that starts one."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from cayu_review.views import session as views
from cayu_runtime.models import Message, Session
from tests.web.office import Office


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def page_of(client: Client, session: Session, **query: Any) -> str:
    answer = client.get(f"/sessions/{session.session_id}/", query)
    assert answer.status_code == 200
    return text(answer)


def approve(office: Office, session: Session) -> Session:
    approval = office.approval(session)
    office.client(office.alice).post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    session.refresh_from_db()
    return session


def test_the_list_shows_the_newest_first_with_its_state(office: Office, alice: Client) -> None:
    office.ask(task="the older one")
    office.ask(("look", {"order": "1"}), task="the newer one", gated=())
    page = text(alice.get("/sessions/"))
    assert page.index("the newer one") < page.index("the older one")
    assert "Waits for approval" in page
    assert "Finished" in page


def test_the_list_goes_on_by_key(office: Office, alice: Client) -> None:
    office.ask()
    first = Session.objects.get()
    values = Session.objects.values().get()
    for number in range(120):
        at = first.created_at + timedelta(seconds=number // 3)
        more = {"id": uuid4(), "session_id": f"s{number}", "created_at": at, "interruption": "approval_required"}
        Session.objects.create(**{**values, **more})
    seen, address = [], "/sessions/"
    while address:
        page = alice.get(address)
        seen += [row.session_id for row, *_ in page.context["rows"]]
        address = f"/sessions/?{page.context['next']}" if page.context["next"] else ""
    assert len(seen) == len(set(seen)) == 121


def test_words_stay_true_from_the_request_to_the_receipt(office: Office, alice: Client) -> None:
    session = office.ask()
    page = page_of(alice, session)
    assert "Waits for approval" in page
    assert f'href="/approvals/{office.approval(session).id}/"' in page
    approve(office, session)
    page = page_of(alice, session)
    assert "Approved, not dispatched yet" in page
    assert "Ready to run" in page
    assert "Done" not in page
    office.run(session)
    page = page_of(alice, session)
    assert "Done, not verified" in page
    assert "Booked as R-1." in page
    assert "refund: completed." in page
    assert "Finished" in page


def test_an_unknown_outcome_is_told_as_such(office: Office, alice: Client) -> None:
    effect = office.unknown()
    page = page_of(alice, effect.session)
    assert "Outcome unknown" in page
    assert "Waits: an outcome is unknown" in page
    assert f'href="/effects/{effect.id}/"' in page
    assert "Done" not in page


def test_what_has_no_effect_is_simply_done(office: Office, alice: Client) -> None:
    page = page_of(alice, office.ask(("look", {"order": "8"}), gated=()))
    assert "Look up order 8" in page
    assert '<span class="words good">Done</span>' in page
    assert "not verified" not in page


def test_what_is_not_at_rest_is_looked_at_again(office: Office, alice: Client) -> None:
    session = office.ask()
    assert 'data-refresh="5"' in page_of(alice, session)
    approve(office, session)
    assert 'data-refresh="1"' in page_of(alice, session)
    assert ">Refresh</a>" in page_of(alice, session)
    office.run(session)
    assert "data-refresh" not in page_of(alice, session)
    assert ">Refresh</a>" not in page_of(alice, session)


def test_the_part_that_is_swapped_says_when_it_has_changed(office: Office, alice: Client) -> None:
    session = office.ask()
    mark = lambda: page_of(alice, session).split('data-live="')[1].split('"')[0]  # noqa: E731
    before = mark()
    assert mark() == before
    approve(office, session)
    assert mark() != before


def test_the_timeline_tells_every_event(office: Office, alice: Client) -> None:
    session = office.run(approve(office, office.ask()))
    page = page_of(alice, session)
    for sentence in (
        "Started by bob",
        "The model answered, calls asked for: 1",
        "Approval asked for refund",
        "refund approved by alice",
        "refund dispatched",
        "refund: done",
        "Waits for approval</p>",
        "Session finished",
    ):
        assert sentence in page
    assert f"Events, {session.last_seq} on record" in page
    assert page.count('<li value="') == session.last_seq


def test_long_histories_come_in_parts_and_nothing_is_lost(
    office: Office, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = office.run(approve(office, office.ask(task="say it")))
    messages = list(Message.objects.filter(session=session).order_by("position"))
    assert [message.role for message in messages] == ["user", "model", "tools", "model"]
    monkeypatch.setattr(views, "MESSAGES", 2)
    monkeypatch.setattr(views, "EVENTS", 4)
    latest = page_of(alice, session)
    assert "refund: completed." in latest
    assert "Refund order 1042" not in latest
    assert 'href="?before=2"' in latest
    earlier = page_of(alice, session, before=2)
    assert 'class="saying">say it' in earlier
    assert "Refund order 1042" in earlier
    assert "refund: completed." not in earlier
    assert "data-refresh" not in earlier
    seen, before = 0, session.last_seq + 1
    while before:
        answer = alice.get(f"/sessions/{session.session_id}/", {"events_before": before})
        seen += len(answer.context["events"])
        before = answer.context["earlier_events"]
    assert seen == session.last_seq


@pytest.mark.parametrize("query", [{"before": "x"}, {"before": "-1"}, {"events_before": "9" * 30}, {"before": "²"}])
def test_a_malformed_part_is_refused(query: dict[str, str], office: Office, alice: Client) -> None:
    assert alice.get(f"/sessions/{office.ask().session_id}/", query).status_code == 400


@pytest.mark.parametrize(
    "query", [{"before": "0"}, {"before": "99999"}, {"events_before": "0"}, {"events_before": "99999"}]
)
def test_a_part_that_is_not_there_is_an_empty_or_the_last_one(
    query: dict[str, str], office: Office, alice: Client
) -> None:
    assert alice.get(f"/sessions/{office.ask().session_id}/", query).status_code == 200


def test_long_results_and_arguments_say_how_much_is_not_shown(office: Office, alice: Client) -> None:
    page = page_of(alice, office.ask(("refund", {"order": "1042", "body": "x" * 9000})))
    assert "too long for this page" in page
    assert "Its request shows them in full." in page
    assert "x" * 5000 not in page
    page = page_of(alice, office.ask(task="please " + "look " * 2000))
    assert "more characters are on record" in page


def test_texts_of_people_and_models_stay_text(office: Office, alice: Client) -> None:
    page = page_of(alice, office.ask(("refund", {"order": "<b>1\u202e</b>"}), task="<script>alert(1)</script>"))
    assert "<script>alert" not in page
    assert "<b>1" not in page
    assert "\u202e" not in page


# ---- start ----


def start(client: Client, **form: str) -> Any:
    return client.post("/start/", {"agent": "desk", "text": "refund order 1042", **form})


def test_the_start_page_offers_the_agents_with_an_example(office: Office, alice: Client) -> None:
    office.ask()
    page = text(alice.get("/start/"))
    assert 'value="desk"' in page
    assert "Does what a test tells it." in page
    assert "<q>refund order 1042</q>" in page


def test_starting_leads_to_the_session(office: Office) -> None:
    office.ask()
    answer = start(office.client(office.bob), text="refund order 1042 now")
    session = Session.objects.latest("created_at")
    assert answer["Location"] == f"/sessions/{session.session_id}/"
    assert (session.tenant, session.task, session.state) == (office.north, "refund order 1042 now", "pending")
    assert (session.requester, session.requester_name) == (f"user:{office.bob.pk}", "bob")


def test_a_form_that_is_sent_twice_starts_one_session(office: Office, alice: Client) -> None:
    office.ask()
    form = {"session_id": "s-once", "text": "refund it"}
    assert start(alice, **form).status_code == 302
    again = start(alice, **form)
    assert again.status_code == 409
    assert 'href="/sessions/s-once/"' in text(again)
    assert ">refund it</textarea>" in text(again)
    assert again.context["session_id"] != "s-once"
    assert Session.objects.filter(session_id="s-once").count() == 1


@pytest.mark.parametrize(
    "form, said",
    [
        ({"agent": "nobody"}, "There is no agent &#x27;nobody&#x27;"),
        ({"agent": ""}, "There is no agent"),
        ({"text": "   "}, "the message is empty"),
        ({"text": "x" * 40_000}, "at most 32000"),
        ({"session_id": "no spaces"}, "session_id has 1 to 80"),
    ],
)
def test_what_cannot_be_started_gets_a_sentence_and_keeps_the_words(
    form: dict[str, str], said: str, office: Office, alice: Client
) -> None:
    office.ask()
    before = Session.objects.count()
    answer = start(alice, **form)
    assert answer.status_code == 400
    assert said in text(answer)
    assert answer.context["text"] == form.get("text", "refund order 1042")
    assert Session.objects.count() == before
