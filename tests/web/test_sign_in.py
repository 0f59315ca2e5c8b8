from typing import Any

from django.test import Client

from cayu_review.services.membership import grant_role
from tests.web.office import Office


def sign_in(name: str, **more: str) -> tuple[Client, Any]:
    client = Client()
    return client, client.post("/accounts/login/", {"username": name, "password": f"{name}'s word", **more})


def test_sign_in_by_password_leads_to_the_queue(office: Office) -> None:
    client, answer = sign_in("alice")
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/").status_code == 200


def test_sign_in_leads_on_within_this_site_alone(office: Office) -> None:
    _, answer = sign_in("alice", next="/sessions/")
    assert answer["Location"] == "/sessions/"
    for elsewhere in ("https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        _, answer = sign_in("alice", next=elsewhere)
        assert answer["Location"] == "/"


def test_a_wrong_password_gets_a_sentence_and_keeps_the_name(client: Client, office: Office) -> None:
    answer = client.post("/accounts/login/", {"username": "alice", "password": "wrong"})
    assert answer.status_code == 200
    assert b"Please enter a correct username and password" in answer.content
    assert b'value="alice"' in answer.content
    assert client.get("/").status_code == 302


def test_an_account_that_is_switched_off_cannot_sign_in_and_is_out_at_once(office: Office) -> None:
    client, _ = sign_in("alice")
    office.alice.is_active = False
    office.alice.save()
    assert client.get("/").status_code == 302
    _, answer = sign_in("alice")
    assert answer.status_code == 200


def test_the_active_tenant_is_settled_at_sign_in(office: Office) -> None:
    client, _ = sign_in("alice")
    grant_role(office.alice, office.south, "viewer")
    office.alice.memberships.filter(tenant=office.north).update(created_at="2040-01-01T00:00Z")
    assert client.get("/").context["member"].tenant == office.north
    office.alice.memberships.filter(tenant=office.north).delete()
    assert client.get("/").context["member"].tenant == office.south


def test_sign_out_ends_it(office: Office) -> None:
    client, _ = sign_in("alice")
    assert client.post("/accounts/logout/")["Location"] == "/accounts/login/"
    assert client.get("/").status_code == 302
