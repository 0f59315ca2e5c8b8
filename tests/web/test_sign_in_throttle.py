"""Sign-in by password may fail a number of times, per account and per address; then it waits."""

from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from cayu_review import sign_in
from cayu_review.sign_in import FAILURES_OF_ACCOUNT, FAILURES_OF_ADDRESS, admit, blocked_until, take_back
from tests.web.office import Office


def attempt(
    name: str = "alice", password: str = "wrong", address: str = "192.0.2.7", client: Client | None = None
) -> Any:
    form = {"username": name, "password": password}
    return (client or Client()).post("/accounts/login/", form, REMOTE_ADDR=address)


def fail(times: int, name: str = "alice", **where: Any) -> Any:
    for _ in range(times):
        answer = attempt(name, **where)
    return answer


def test_at_the_limit_even_the_right_password_waits_and_it_is_said_until_when(office: Office) -> None:
    assert fail(FAILURES_OF_ACCOUNT - 1).status_code == 200
    answer = attempt()
    assert answer.status_code == 429
    assert b"Try again in 14 min, at " in answer.content or b"Try again in 15 min, at " in answer.content
    assert 0 < int(answer["Retry-After"]) <= sign_in.WINDOW.total_seconds() + 1
    client = Client()
    assert attempt(password="alice's word", client=client).status_code == 429
    assert client.get("/").status_code == 302


def test_an_account_that_does_not_exist_is_told_the_same(office: Office) -> None:
    def told(answer: Any) -> tuple[int, list[bytes]]:
        return answer.status_code, [line for line in answer.content.splitlines() if b"have failed" in line]

    there, nowhere = fail(FAILURES_OF_ACCOUNT), fail(FAILURES_OF_ACCOUNT, "nobody")
    assert there.status_code == nowhere.status_code == 429
    assert told(there)[1][0].split(b"Try again")[0] == told(nowhere)[1][0].split(b"Try again")[0]


def test_other_accounts_and_other_spellings(office: Office) -> None:
    fail(FAILURES_OF_ACCOUNT - 1)
    fail(1, "ALICE")
    assert attempt(password="alice's word").status_code == 429
    assert attempt("bob", "bob's word").status_code == 302


def test_an_address_is_counted_over_all_names(office: Office) -> None:
    for number in range(FAILURES_OF_ADDRESS):
        attempt(f"name-{number}")
    assert attempt("bob", "bob's word").status_code == 429
    assert attempt("bob", "bob's word", address="192.0.2.8").status_code == 302


def test_one_network_of_ipv6_is_one_address(office: Office) -> None:
    for number in range(FAILURES_OF_ADDRESS):
        attempt(f"name-{number}", address=f"2001:db8::{number:x}")
    assert attempt("bob", "bob's word", address="2001:db8::ffff:1").status_code == 429
    assert attempt("bob", "bob's word", address="2001:db8:0:1::1").status_code == 302


def test_success_is_no_failure_and_forgets_those_before(office: Office) -> None:
    fail(FAILURES_OF_ACCOUNT - 1)
    for _ in range(FAILURES_OF_ADDRESS):
        assert attempt(password="alice's word").status_code == 302
    assert fail(FAILURES_OF_ACCOUNT - 1).status_code == 200


def test_it_ends_by_itself_and_does_not_begin_anew_meanwhile(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(FAILURES_OF_ACCOUNT)
    end = blocked_until("alice", "192.0.2.7")
    assert end is not None
    fail(3)
    assert blocked_until("alice", "192.0.2.7") == end
    monkeypatch.setattr(timezone, "now", lambda: end)
    assert blocked_until("alice", "192.0.2.7") is None
    assert admit("alice", "192.0.2.7") is None


def test_many_at_once_do_not_get_past_the_limit(office: Office) -> None:
    """An attempt counts before its password is looked at."""
    assert [admit("alice", "") is None for _ in range(FAILURES_OF_ACCOUNT + 5)] == [True] * FAILURES_OF_ACCOUNT + [
        False
    ] * 5
    take_back("alice", "")
    assert admit("alice", "") is None


def test_the_admins_own_form_is_throttled_as_well(office: Office) -> None:
    fail(FAILURES_OF_ACCOUNT)
    office.alice.is_staff = True
    office.alice.save()
    client = Client()
    client.post("/admin/login/", {"username": "alice", "password": "alice's word"}, REMOTE_ADDR="192.0.2.7")
    assert "_auth_user_id" not in client.session


def test_a_count_is_no_session_that_somebody_could_present(office: Office) -> None:
    fail(1)
    for row in Session.objects.all():
        client = Client()
        client.cookies["sessionid"] = row.session_key
        assert client.get("/").status_code == 302
