"""What agents ask, as pages: the list, a question, its one answer, and what becomes of a second one."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cayu_runtime.core import clock
from cayu_runtime.models import Event, Question
from cayu_runtime.services.session import interrupt_session
from tests.web.office import Office

CHOICES = ["the red one", "the <blue> one"]


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def main(answer: Any) -> str:
    return text(answer).split("<main")[1].split("</main>")[0]


def send(client: Client, question: Question, answer: str, **changed: Any) -> Any:
    form = {"text": answer, "digest": question.digest.hex(), **changed}
    return client.post(f"/questions/{question.id}/answer/", form)


def state(question: Question) -> tuple[str, Any, str]:
    question.refresh_from_db()
    return question.state, question.answer, question.answered_by_name


# ---- the list ----


def test_a_row_answers_without_being_opened(office: Office, alice: Client) -> None:  # UX 2
    office.question("How much?\nIn euros.", task="refund order 1042", expires_in_hours=2)
    office.question("Which?", choices=CHOICES)
    page = text(alice.get("/questions/"))
    for fact in (
        "How much? In euros.</a>",
        "refund order 1042",
        "desk",
        "bob",
        "In words",
        "2 choices",
        " left</time>",
    ):
        assert fact in page
    assert "your own" not in page
    assert "your own" in text(office.client(office.bob).get("/questions/"))


def test_soonest_to_expire_stands_first_in_pages_by_key(office: Office, alice: Client) -> None:
    asked = [office.question(f"{hours}?", expires_in_hours=hours) for hours in (9, 1, 5)]
    rows = alice.get("/questions/").context["rows"]
    assert [row.id for row in rows] == [asked[1].id, asked[2].id, asked[0].id]
    after = f"{rows[0].expires_at.isoformat()}~{rows[0].id}"
    beyond = alice.get("/questions/", {"after": after})
    assert [row.id for row in beyond.context["rows"]] == [asked[2].id, asked[0].id]


def test_counts_stand_in_every_tab_bar_and_title(office: Office, alice: Client) -> None:  # UX 1
    office.question()
    office.question()
    office.ask()
    for address in ("/", "/reconcile/", "/questions/"):
        page = text(alice.get(address))
        assert "<title>1 to approve, 0 to reconcile, 2 to answer" in page
        assert 'To answer <span class="count">2</span>' in page
    assert '<a href="/questions/" aria-current="page">To answer' in text(alice.get("/questions/"))


def test_an_empty_list_tells_the_truth_and_so_does_the_other_queue(office: Office, alice: Client) -> None:  # UX 18
    assert "No question has been answered here yet." in text(alice.get("/questions/"))
    question = office.question()
    page = text(alice.get("/"))
    assert "Nothing waits for your approval." in page
    assert '<a href="/questions/">1 to answer</a>' in page
    send(alice, question, "5")
    page = text(alice.get("/questions/"))
    assert "Nothing to answer." in page
    assert "Last answer" in page
    assert "by alice" in page


def test_the_list_costs_the_same_at_2_and_at_30_rows(office: Office, alice: Client) -> None:  # D10
    counts = {}
    for count in (2, 30):
        office.ask(*[("ask_user", {"question": f"{n}?"}) for n in range(count - Question.objects.count())])
        with CaptureQueriesContext(connection) as queries:
            assert len(alice.get("/questions/").context["rows"]) == count
        counts[count] = len(queries)
        statements = " ".join(query["sql"].upper() for query in queries)
        assert "COUNT(" not in statements
        assert "OFFSET" not in statements
    assert len(set(counts.values())) == 1


def test_a_malformed_address_of_a_page_is_refused(alice: Client) -> None:
    assert alice.get("/questions/", {"after": "x"}).status_code == 400


# ---- the question ----


def test_the_page_shows_the_question_and_its_context(office: Office, alice: Client) -> None:
    question = office.question("How much?\nIn <b>euros</b>\u202e.", task="refund order 1042", expires_in_hours=3)
    page = main(alice.get(f"/questions/{question.id}/"))
    for fact in ("Agent desk asks", "How much? In &lt;b&gt;euros&lt;/b&gt;.", "refund order 1042", "for bob",
                 f'href="/sessions/{question.session.session_id}/"', " left</time>", "Waits for an answer",
                 question.digest.hex(), '<textarea id="text" name="text"'):  # fmt: skip
        assert fact in page
    assert "radio" not in page


def test_choices_are_radio_buttons_with_their_exact_texts(office: Office, alice: Client) -> None:
    question = office.question("Which?", choices=CHOICES)
    page = main(alice.get(f"/questions/{question.id}/"))
    assert page.count('type="radio" name="text"') == 2
    assert 'value="the &lt;blue&gt; one" required' in page
    assert "<textarea" not in page
    assert "checked" not in page
    assert send(alice, question, "the <blue> one").status_code == 302
    assert state(question) == ("answered", "the <blue> one", "alice")


def test_reading_it_changes_nothing(office: Office, alice: Client) -> None:  # D3
    question = office.question()
    events = Event.objects.count()
    for address in (f"/questions/{question.id}/", "/questions/"):
        for _ in range(3):
            assert alice.get(address).status_code == alice.head(address).status_code == 200
    assert alice.get(f"/questions/{question.id}/answer/")["Location"] == f"/questions/{question.id}/"
    assert Event.objects.count() == events
    assert state(question)[0] == "pending"


def test_an_answer_without_the_form_s_token_is_refused_and_given_back(office: Office) -> None:  # D3
    question = office.question()
    answer = send(office.client(office.alice, enforce_csrf_checks=True), question, "my own words")
    assert answer.status_code == 403
    assert "my own words" in text(answer)
    assert state(question)[0] == "pending"


def test_the_answer_reaches_the_agent_and_the_session_s_page_says_whose_it_is(office: Office, alice: Client) -> None:
    question = office.question()
    session_page = f"/sessions/{question.session.session_id}/"
    page = text(alice.get(session_page))
    assert f'<a href="/questions/{question.id}/">Open the question' in page
    assert "Waits for an answer" in page
    assert '<p class="saying">How much?</p>' in page
    answer = send(alice, question, "25.50 <i>in full</i>\r\nplease")
    page = text(alice.get(answer["Location"]))
    assert "Answered. The agent is told." in page
    assert f'<a href="{session_page}">See what comes of it</a>' in page
    office.run(question.session)
    page = text(alice.get(session_page))
    assert "Answered by alice" in page
    assert "25.50 &lt;i&gt;in full&lt;/i&gt; please" in page
    assert "ask_user: completed." in page


def test_who_asked_for_the_session_answers_without_being_an_approver(office: Office) -> None:
    question = office.question()
    assert send(office.client(office.bob), question, "5").status_code == 302
    assert state(question) == ("answered", "5", "bob")


def test_another_viewer_sees_it_and_can_not_answer(office: Office) -> None:
    question = office.question(choices=CHOICES)
    client = office.client(office.person("vic", office.north, "viewer"))
    page = main(client.get(f"/questions/{question.id}/"))
    assert "Only the person who asked for this session, or an approver, can answer" in page
    assert '<button type="submit" form="answer" class="main" disabled' in page
    answer = send(client, question, "the red one")
    assert answer.status_code == 403
    assert "Only the person who asked for this session" in text(answer)
    assert state(question)[0] == "pending"
    words = office.question()
    assert "my own words" in main(send(client, words, "my own words"))


@pytest.mark.parametrize("said", ["", " \n\t", "\u200b\u200b", "x" * 4001])
def test_no_answer_is_told_what_is_wrong_and_keeps_the_words(office: Office, alice: Client, said: str) -> None:
    question = office.question()
    answer = send(alice, question, said)
    assert answer.status_code == 400
    assert "Your answer was not recorded" in text(answer)
    assert said in answer.content.decode()
    assert state(question)[0] == "pending"


def test_what_is_no_choice_is_refused_and_the_chosen_one_stays_chosen(office: Office, alice: Client) -> None:
    question = office.question(choices=CHOICES)
    assert send(alice, question, "the green one").status_code == 400
    assert "Choose one of the answers" in text(send(alice, question, ""))
    answer = send(alice, question, "the red one", digest="no digest")
    assert answer.status_code == 400
    assert 'value="the red one" required checked' in text(answer)
    assert state(question)[0] == "pending"


def test_a_wrong_digest_is_a_conflict_and_keeps_the_words(office: Office, alice: Client) -> None:
    question = office.question()
    answer = send(alice, question, "my own words", digest="ab" * 32)
    assert answer.status_code == 409
    assert "my own words" in main(answer)
    assert state(question)[0] == "pending"


def test_who_comes_second_is_told_who_answered_what_and_when(office: Office, alice: Client) -> None:  # UX 9
    question = office.question()
    send(office.client(office.erin), question, "five")
    answer = send(alice, question, "my own words")
    assert answer.status_code == 409
    page = main(answer)
    assert "Your answer was not recorded" in page
    assert "erin answered" in page
    assert "just now" in page
    assert '<p class="saying">five</p>' in page
    assert "my own words" in page
    assert "<form" not in page
    assert state(question) == ("answered", "five", "erin")
    assert main(alice.get(f"/questions/{question.id}/")).count("five") == 1


def test_the_same_answer_again_is_the_recorded_one(office: Office, alice: Client) -> None:  # as A5
    question = office.question()
    send(alice, question, "5")
    office.run(question.session)
    events = Event.objects.count()
    again = send(alice, question, "5")
    assert again.status_code == 302
    assert "You had answered this already." in text(alice.get(again["Location"]))
    assert Event.objects.count() == events


def test_after_its_time_it_can_not_be_answered_and_the_words_are_kept(office: Office, alice: Client) -> None:
    question = office.question(expires_in_hours=1)
    now = clock.now()
    Question.objects.filter(pk=question.pk).update(created_at=now - timedelta(2), expires_at=now - timedelta(minutes=1))
    page = main(alice.get(f"/questions/{question.id}/"))
    assert "Nobody answered in time" in page
    assert "<form" not in page
    assert '<li class="row over"' in text(alice.get("/questions/"))
    answer = send(alice, question, "my own words")
    assert answer.status_code == 409
    assert "The time to answer ended" in main(answer)
    assert "my own words" in main(answer)
    assert state(question)[0] == "expired"


def test_a_withdrawn_question_says_so(office: Office, alice: Client) -> None:
    question = office.question()
    interrupt_session(office.north, office.actor(office.bob, office.north), question.session.session_id)
    page = main(alice.get(f"/questions/{question.id}/"))
    assert "Withdrawn, no answer is needed" in page
    assert "<form" not in page
    assert send(alice, question, "5").status_code == 409


def test_the_next_question_that_this_person_may_answer_opens(office: Office, alice: Client) -> None:  # UX 13
    first, second, third = (office.question(f"{n}?", expires_in_hours=n) for n in (1, 2, 3))
    own = office.question("own?", by=office.alice, expires_in_hours=2.5)
    bob = office.client(office.bob)
    assert send(bob, second, "5")["Location"] == f"/questions/{third.id}/", "not alice's, which bob may not answer"
    assert send(alice, third, "5")["Location"] == f"/questions/{first.id}/"
    assert send(alice, first, "5")["Location"] == f"/questions/{own.id}/"
    assert send(alice, own, "5")["Location"] == "/questions/"
