"""A form whose sign-in had ended: nothing is recorded, and the words come back on the page they were written on."""

from typing import Any

import pytest
from django.test import Client

from cayu_runtime.models import Decision
from tests.web.office import Office

WORDS = 'too <b>much</b>,\n"really"'


def text(answer: Any) -> str:
    return str(answer.content.decode())


def sign_in(client: Client, refused: Any, name: str = "alice", **changed: str) -> Any:
    """Fill in the sign-in form of a page, as a browser would."""
    form = {"next": refused.context["next"], "draft": refused.context["draft"]}
    return client.post("/accounts/login/", {**form, "username": name, "password": f"{name}'s word", **changed})


def test_a_decision_leads_through_the_sign_in_back_to_its_form(office: Office, client: Client) -> None:
    approval = office.approval(office.ask())
    address = f"/approvals/{approval.id}/"
    refused = client.post(f"{address}decide/", office.form(approval, "deny", reason=WORDS))
    assert refused.status_code == 403
    assert "Nothing of what you sent was recorded" in text(refused)
    assert f'name="next" value="{address}"' in text(refused)
    assert not Decision.objects.exists()
    back = sign_in(client, refused)
    assert back["Location"] == address
    page = client.get(address)
    assert "too &lt;b&gt;much&lt;/b&gt;,\n&quot;really&quot;</textarea>" in text(page)
    assert "too &lt;b&gt;" in text(client.get(address)), "looking does not use it up"
    assert client.post(f"{address}decide/", office.form(approval, "deny", reason=WORDS)).status_code == 302
    assert "cayu_draft" not in client.session
    assert Decision.objects.get().reason.startswith("too <b>")


def test_a_first_message_comes_back_on_the_start_page(office: Office, client: Client) -> None:
    office.ask()
    refused = client.post("/start/", {"agent": "desk", "text": WORDS})
    assert sign_in(client, refused)["Location"] == "/start/"
    assert "too &lt;b&gt;much&lt;/b&gt;" in text(client.get("/start/"))
    assert client.post("/start/", {"agent": "desk", "text": WORDS}).status_code == 302
    assert "too &lt;b&gt;" not in text(client.get("/start/"))


def test_a_wrong_password_on_the_way_loses_nothing(office: Office, client: Client) -> None:
    session = office.ask()
    refused = client.post(f"/sessions/{session.session_id}/stop/", {"reason": WORDS})
    wrong = sign_in(client, refused, password="wrong")
    assert "too &lt;b&gt;much&lt;/b&gt;" in text(wrong)
    assert sign_in(client, wrong)["Location"] == f"/sessions/{session.session_id}/"
    assert "too &lt;b&gt;much&lt;/b&gt;" in text(client.get(f"/sessions/{session.session_id}/"))


def test_who_signed_in_elsewhere_meanwhile_keeps_the_words_too(office: Office, client: Client) -> None:
    refused = client.post("/start/", {"agent": "desk", "text": WORDS})
    client.force_login(office.alice)
    assert sign_in(client, refused)["Location"] == "/start/"
    office.ask()
    assert "too &lt;b&gt;much&lt;/b&gt;" in text(client.get("/start/"))


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/start/", "//evil.example/start/", "javascript:alert(1)", ""]
)
def test_words_go_nowhere_but_to_a_page_of_this_site(elsewhere: str, office: Office, client: Client) -> None:
    refused = client.post("/start/", {"agent": "desk", "text": WORDS})
    assert sign_in(client, refused, next=elsewhere)["Location"] == "/"
    assert "cayu_draft" not in client.session


def test_words_of_one_page_stand_on_no_other_and_end_with_the_sign_in(office: Office, client: Client) -> None:
    approval, other = (office.approval(office.ask()) for _ in range(2))
    refused = client.post(f"/approvals/{approval.id}/decide/", {"reason": WORDS})
    sign_in(client, refused)
    assert "too &lt;b&gt;" not in text(client.get(f"/approvals/{other.id}/"))
    client.post(f"/approvals/{other.id}/decide/", office.form(other, "approve"))
    assert "too &lt;b&gt;" in text(client.get(f"/approvals/{approval.id}/"))
    client.post("/accounts/logout/")
    client.force_login(office.erin)
    assert "too &lt;b&gt;" not in text(client.get(f"/approvals/{approval.id}/"))


@pytest.mark.parametrize("address", ["/accounts/tenant/", "/start/"])
def test_a_form_without_words_leads_back_as_well(address: str, office: Office, client: Client) -> None:
    refused = client.post(address)
    back = sign_in(client, refused)["Location"]
    assert client.get(back).status_code == 200
