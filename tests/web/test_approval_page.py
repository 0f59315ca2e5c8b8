"""The page on which a person decides: what it shows, and which buttons it has for whom."""

import html
import re
from datetime import timedelta

import pytest
from django.test import Client

from cayu_runtime.core import clock
from cayu_runtime.models import Approval
from tests.web.office import Office


@pytest.fixture
def alice(office: Office) -> Client:
    return office.client(office.alice)


def page_of(client: Client, approval: Approval) -> str:
    answer = client.get(f"/approvals/{approval.id}/")
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def button(page: str, said: str) -> str:
    """The opening tag of the button with these words."""
    found = re.search(rf"(<button[^>]*>)\s*{re.escape(said)}", page)
    assert found, f"no button {said!r}"
    return found[1]


def test_it_shows_what_the_decision_is_about(office: Office, alice: Client) -> None:
    approval = office.approval(office.ask(task="refund order 1042 because damaged", expires_in=86400))
    page = page_of(alice, approval)
    for fact in (
        "<h1>Refund order 1042</h1>",
        "refund order 1042 because damaged",
        "agent desk, for bob",
        "External</span> Acts outside this system",
        "Money leaves the company.",
        "<code>refund</code>, version 1",
        " left</time>",
        f"{approval.expires_at:%Y, %H:%M:%S} UTC",
        f'datetime="{approval.expires_at:%Y-%m-%dT%H:%M:%S}',
    ):
        assert fact in page


def test_the_form_carries_version_and_digest_and_nothing_of_the_content(office: Office, alice: Client) -> None:  # UX 9
    approval = office.approval(office.ask())
    page = page_of(alice, approval)
    form = page.split('id="decide"')[1].split("</form>")[0]
    assert set(re.findall(r'name="(\w+)"', form)) == {"csrfmiddlewaretoken", "version", "digest", "reason"}
    assert f'name="digest" value="{approval.intent_digest.hex()}"' in form
    assert 'name="version" value="1"' in form


def test_the_digest_is_there_short_and_whole(office: Office, alice: Client) -> None:
    approval = office.approval(office.ask())
    page = page_of(alice, approval)
    assert f"{approval.intent_digest.hex()[:12]}…" in page
    assert page.count(approval.intent_digest.hex()) == 2


def test_buttons_carry_the_consequence(office: Office, alice: Client) -> None:  # UX 8
    page = page_of(alice, office.approval(office.ask()))
    assert "disabled" not in button(page, "Approve and refund order 1042")
    assert "disabled" not in button(page, "Deny")


def test_an_external_effect_is_asked_about_twice_also_without_javascript(office: Office, alice: Client) -> None:  # UX 5
    approval = office.approval(office.ask())
    page = page_of(alice, approval)
    first = button(page, "Approve and refund order 1042")
    assert f'formaction="/approvals/{approval.id}/confirm/"' in first
    assert "name=" not in first
    assert re.search(r'<div class="confirm"[^>]* hidden>', page)
    answer = alice.post(f"/approvals/{approval.id}/confirm/", office.form(approval, "", reason="fine"))
    assert answer.status_code == 200
    asked = " ".join(answer.content.decode().split())
    assert not re.search(r'<div class="confirm"[^>]* hidden>', asked)
    assert re.search(r'<div class="ask"[^>]* hidden>', asked)
    assert "Refund order 1042?</strong> Once it is dispatched it cannot be undone." in asked
    assert 'name="decision" value="approve"' in button(asked, "Yes, refund order 1042")
    assert re.search(r"<a [^>]*autofocus>Cancel", asked)
    assert ">fine</textarea>" in asked
    approval.refresh_from_db()
    assert approval.state == "pending"


def test_other_effects_are_asked_about_once(office: Office, alice: Client) -> None:  # UX 4, 5
    approval = office.approval(office.ask(("label", {"order": "7"})))
    page = page_of(alice, approval)
    assert 'name="decision" value="approve"' in button(page, "Approve and label order 7")
    assert 'class="confirm"' not in page
    assert "Idempotent" in page


def test_own_requests_have_their_buttons_off_and_say_why(office: Office, alice: Client) -> None:  # UX 12
    page = page_of(alice, office.approval(office.ask(by=office.alice)))
    assert "disabled" in button(page, "Approve and refund order 1042")
    assert "disabled" in button(page, "Deny")
    assert "You asked for this yourself, so somebody else must decide it." in page
    assert "<textarea" not in page


def test_who_is_no_approver_sees_it_with_the_buttons_off(office: Office) -> None:
    page = page_of(office.client(office.person("vic", office.north, "viewer")), office.approval(office.ask()))
    assert "disabled" in button(page, "Approve and refund order 1042")
    assert "Deciding needs the role approver" in page


def test_what_is_over_cannot_be_decided_and_says_so(office: Office, alice: Client) -> None:  # UX 11
    approval = office.approval(office.ask())
    now = clock.now()
    Approval.objects.filter(pk=approval.pk).update(
        created_at=now - timedelta(hours=2), expires_at=now - timedelta(minutes=1)
    )
    page = page_of(alice, approval)
    assert "Not decided in time. Nothing was sent." in page
    assert "<form" not in page.split("<main")[1].split("</main>")[0]
    confirm = alice.post(f"/approvals/{approval.id}/confirm/", office.form(approval, ""))
    assert b'class="confirm"' not in confirm.content


# ---- arguments: UX 6 ----


def value_of(page: str, name: str) -> str:
    """The markup of one argument's value."""
    found = re.search(
        rf'<code dir="ltr">{re.escape(name)}</code></th>\s*<td><code[^>]*>(.*?)</code></td>', page, re.DOTALL
    )
    assert found, f"no argument {name!r}"
    return found[1]


def raw_page(client: Client, approval: Approval) -> str:
    return client.get(f"/approvals/{approval.id}/").content.decode()


def test_types_are_told_apart(office: Office, alice: Client) -> None:
    page = raw_page(
        alice, office.approval(office.ask(("refund", {"order": "1", "text": "5000", "number": 5000, "nothing": None})))
    )
    assert html.unescape(value_of(page, "text")) == '"5000"'
    assert value_of(page, "number") == "5000"
    assert value_of(page, "nothing") == "null"
    assert page.count('<td class="type">text</td>') == 2


def test_hidden_characters_are_written_out_everywhere(office: Office, alice: Client) -> None:
    arguments = {"order": "77\u202e43", "memo": "a\u200bb\0c\u00a0d\nnext\tline", "typed": r"\u200b"}
    page = raw_page(alice, office.approval(office.ask(("refund", arguments))))
    assert r"<h1>Refund order 77\u202e43</h1>" in page
    assert r"Approve and refund order 77\u202e43" in page
    assert r"77<span class=" in value_of(page, "order")
    memo = value_of(page, "memo")
    for written in (r"\u200b", r"\u0000", r"\u00a0", r"\t"):
        assert f'<span class="escape">{written}</span>' in memo
    assert '<span class="escape">\\n</span>\nnext' in memo
    assert r'<span class="escape">\\</span>u200b' in value_of(page, "typed")
    for hidden in "\u202e\u200b\0\u00a0":
        assert hidden not in page


def test_markup_in_arguments_stays_text(office: Office, alice: Client) -> None:
    evil = {"order": "<script>alert(1)</script>", "<img src=x>": "{{ secret }}</code><h1>Approved</h1>"}
    page = raw_page(alice, office.approval(office.ask(("refund", evil), task="<script>alert(2)</script>")))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "<h1>Approved" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_an_argument_of_300_kb_is_there_to_its_last_character(office: Office, alice: Client) -> None:  # A24
    body = "".join(f"line {number} of the long story; " for number in range(11_000))
    approval = office.approval(office.ask(("refund", {"order": "1042", "body": body})))
    page = raw_page(alice, approval)
    assert html.unescape(value_of(page, "body")) == f'"{body}"'
    assert f"{len(body):,} characters" in page
    answer = alice.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve"))
    assert answer.status_code == 302


def test_an_empty_call_says_so(office: Office, alice: Client) -> None:
    page = raw_page(alice, office.approval(office.ask(("refund", {}))))
    assert value_of(page, "(all)") == "{}"
    assert "Approve and refund order</button>" in " ".join(page.split())


@pytest.mark.parametrize(
    "verb, button_says", [("Refund order", "refund order 7"), ("SQL on", "SQL on 7"), ("delete", "delete 7")]
)
def test_a_verb_keeps_its_abbreviation(verb: str, button_says: str, office: Office, alice: Client) -> None:
    approval = office.approval(office.ask())
    Approval.objects.filter(pk=approval.pk).update(verb=verb, target="7")
    assert button(page_of(alice, approval), f"Approve and {button_says}")
