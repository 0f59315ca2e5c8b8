"""Who gets in where: every route, seen by everybody."""

import uuid
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from cayu_review.services.membership import grant_role
from cayu_runtime.models import Event, Session
from tests import rows
from tests.web.office import Office

LISTS = ["/", "/reconcile/", "/questions/", "/sessions/", "/start/", "/approvals/together/"]


@dataclass
class Places:
    """The address of one object of each kind, all in north."""

    approval: str
    effect: str
    session: str
    attachment: str
    question: str

    @property
    def pages(self) -> list[str]:
        return [self.approval, self.effect, self.session, self.attachment, self.question]

    @property
    def deeds(self) -> list[str]:
        of_approval = [f"{self.approval}{deed}/" for deed in ("confirm", "decide", "revoke", "claim", "release")]
        of_session = [f"{self.session}{deed}/" for deed in ("stop", "resume", "continue")]
        return [*of_approval, *of_session, f"{self.question}answer/"]


@pytest.fixture
def places(office: Office) -> Places:
    session = office.ask()
    return Places(
        f"/approvals/{office.approval(session).id}/",
        f"/effects/{office.effect(session).id}/",
        f"/sessions/{session.session_id}/",
        f"/attachments/{rows.attachment(call=office.approval(session).call).id}/",
        f"/questions/{rows.question(call=rows.call('awaiting_answer', round=office.approval(session).call.round)).id}/",
    )


def test_who_is_not_signed_in_is_asked_to_and_comes_back(places: Places, client: Client) -> None:
    for address in [*LISTS, *places.pages]:
        answer = client.get(address)
        assert answer.status_code == 302
        assert answer["Location"] == f"/accounts/login/?next={address}"


def test_a_deed_after_the_sign_in_ended_does_nothing_and_keeps_the_words(places: Places, client: Client) -> None:  # D5
    for address in [*places.deeds, "/start/", "/approvals/together/", "/accounts/tenant/"]:
        answer = client.post(address, {"reason": "too <b>much</b>", "arguments": '{"amount": "50"}'})
        assert answer.status_code == 403
        assert b"You are signed out" in answer.content
        assert b"too &lt;b&gt;much&lt;/b&gt;" in answer.content
        assert b"{&quot;amount&quot;: &quot;50&quot;}" in answer.content


def test_who_has_no_role_is_told_what_to_ask_for(places: Places, office: Office) -> None:
    client = office.client(office.dave)
    for address in [*LISTS, *places.pages]:
        answer = client.get(address)
        assert answer.status_code == 403
        assert b"not a member of any tenant" in answer.content
        assert b"manage.py grantrole dave TENANT viewer" in answer.content
    assert client.post(places.deeds[1], {"reason": "draft"}).status_code == 403


def test_a_superuser_without_a_role_gets_in_nowhere(places: Places, office: Office) -> None:
    client = office.client(User.objects.create_superuser("root"))
    for address in [*LISTS, *places.pages]:
        assert client.get(address).status_code == 403


@pytest.mark.parametrize("name", ["alice", "bob", "erin"])
def test_every_role_reads_every_page_of_its_tenant(name: str, places: Places, office: Office) -> None:
    client = office.client(getattr(office, name))
    for address in [*LISTS, *places.pages]:
        assert client.get(address).status_code == 200
        assert client.head(address).status_code == 200


def test_another_tenants_objects_are_not_there_on_any_route(places: Places, office: Office) -> None:  # D1
    client = office.client(office.carol)
    form = office.form(office.approval(Session.objects.get()), "approve")
    for address in places.pages:
        assert client.get(address).status_code == 404
    for address in places.deeds:
        assert client.post(address, form).status_code == 404
    for address in LISTS:
        page = client.get(address)
        assert page.status_code == 200
        assert b"1042" not in page.content.replace(b"refund order 1042", b"")  # the agent's example is everybody's
    assert not Event.objects.filter(type="tool.call.approved").exists()


def test_what_does_not_exist_looks_like_what_is_not_ours(places: Places, office: Office) -> None:
    own, foreign = office.client(office.alice), office.client(office.carol)
    nowhere = f"/approvals/{uuid.uuid4()}/"
    assert own.get(nowhere).content == foreign.get(places.approval).content


def test_reading_changes_nothing_however_often(places: Places, office: Office) -> None:  # D3
    client = office.client(office.alice)
    before = Event.objects.count(), Session.objects.get().updated_at, dict(client.session)
    chosen = f"/approvals/together/?item={places.approval.split('/')[2]}"
    for address in [*LISTS, *places.pages, *places.deeds, chosen] * 3:
        client.get(address, {"decision": "deny", "reason": "by a link"})
        client.head(address)
    assert (Event.objects.count(), Session.objects.get().updated_at, dict(client.session)) == before


def test_deeds_are_done_by_post_alone(places: Places, office: Office) -> None:  # D3
    client = office.client(office.alice)
    for address in ["/accounts/tenant/", "/accounts/logout/"]:
        assert client.get(address).status_code == 405
        assert client.head(address).status_code == 405
    for address in places.deeds:
        page = next(page for page in places.pages if address.startswith(page))
        assert client.get(address)["Location"] == client.head(address)["Location"] == page
        assert office.client(office.carol).get(address).status_code == 404
    for address in [*LISTS[:3], *places.pages]:
        assert client.post(address).status_code == 405
        assert client.put(address).status_code == 405


def test_deeds_need_the_token_of_a_form(places: Places, office: Office) -> None:
    client = office.client(office.alice, enforce_csrf_checks=True)
    form = office.form(office.approval(Session.objects.get()), "approve")
    for address in [*places.deeds, "/start/", "/approvals/together/", "/accounts/tenant/", "/accounts/logout/"]:
        answer = client.post(address, form)
        assert answer.status_code == 403
        assert b"This form is too old" in answer.content
    assert not Event.objects.filter(type="tool.call.approved").exists()
    page = client.get(places.approval).content.decode()
    token = page.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    assert client.post(places.deeds[1], {**form, "csrfmiddlewaretoken": token}).status_code == 302


def test_a_role_that_was_taken_away_ends_at_once_and_the_words_are_kept(places: Places, office: Office) -> None:  # D5
    client = office.client(office.alice)
    form = office.form(office.approval(Session.objects.get()), "deny", reason="my long thought")
    office.alice.memberships.filter(role="approver").delete()
    answer = client.post(places.deeds[1], form)
    assert answer.status_code == 403
    assert b"needs the role approver" in answer.content
    assert b"my long thought" in answer.content
    office.alice.memberships.all().delete()
    answer = client.post(places.deeds[1], form)
    assert answer.status_code == 403
    assert b"my long thought" in answer.content
    assert not Event.objects.filter(type="tool.call.approval_denied").exists()


def test_with_no_authority_set_nothing_is_permitted(places: Places, office: Office, settings: Settings) -> None:
    settings.CAYU_AUTHORITY = ""
    client = office.client(office.alice)
    for address in [*LISTS, *places.pages]:
        answer = client.get(address)
        assert answer.status_code == 403
        assert b"No authority is set" in answer.content


def test_pages_are_never_kept_by_a_cache(places: Places, office: Office) -> None:
    client = office.client(office.alice)
    for address in [*LISTS, *places.pages]:
        assert "no-store" in client.get(address)["Cache-Control"]


def test_the_active_tenant_is_switched_by_a_form_and_never_by_an_address(places: Places, office: Office) -> None:
    grant_role(office.alice, office.south, "viewer")
    client = office.client(office.alice)
    assert client.get(places.approval).status_code == 200
    assert client.get("/", {"tenant": str(office.south.id)}).context["member"].tenant == office.north
    assert client.post("/accounts/tenant/", {"tenant": str(office.south.id)})["Location"] == "/"
    page = client.get("/")
    assert page.context["member"].tenant == office.south
    assert page.context["member"].actor.roles == ("viewer",)
    assert client.get(places.approval).status_code == 404
    assert client.post(places.deeds[1], {}).status_code == 404


@pytest.mark.parametrize("choice", ["south", "nonsense", ""])
def test_a_tenant_without_a_role_cannot_be_chosen(choice: str, office: Office) -> None:
    client = office.client(office.alice)
    tenant = str(office.south.id) if choice == "south" else choice
    assert client.post("/accounts/tenant/", {"tenant": tenant}).status_code == 400
    assert client.get("/").context["member"].tenant == office.north
