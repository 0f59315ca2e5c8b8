"""Sign-in by a provider that does not lie: the account, the way back, several tabs, sign-out."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session as WebSession
from django.test import Client
from django.utils import timezone

from cayu_review.models import Identity
from cayu_review.selectors.identity import find_identity
from cayu_review.services.identity import admit_identity, name_of_account
from cayu_review.services.membership import Limits, grant_role
from cayu_runtime.errors import Conflict
from cayu_runtime.models import AuditEntry, Decision
from tests.lying_provider import LyingProvider
from tests.web.office import Office
from tests.web.visitor import Visitor

PASSWORDS, OIDC = "cayu_review.sign_in.PasswordBackend", "cayu_review.oidc.backend.OidcBackend"


def text(answer: Any) -> str:
    return str(answer.content.decode())


def test_not_set_up_there_is_no_button_and_no_address(client: Client, db: None) -> None:
    assert "Sign in with" not in text(client.get("/accounts/login/"))
    assert client.post("/accounts/oidc/").status_code == 404
    assert client.get("/accounts/oidc/callback/?state=x&code=y").status_code == 404


def test_set_up_it_stands_beside_passwords(visitor: Visitor) -> None:
    page = text(visitor.client.get("/accounts/login/"))
    assert "Sign in with Example ID" in page
    assert 'name="password"' in page
    assert "Sign in with Example ID" in text(visitor.client.post("/approvals/together/"))


def test_passwords_can_be_switched_off(settings: Any, visitor: Visitor, office: Office) -> None:
    signed_in = Client()
    signed_in.post("/accounts/login/", {"username": "alice", "password": "alice's word"})
    assert signed_in.get("/").status_code == 200
    settings.CAYU_PASSWORDS, settings.AUTHENTICATION_BACKENDS = False, [OIDC]
    assert 'name="password"' not in text(visitor.client.get("/accounts/login/"))
    visitor.client.post("/accounts/login/", {"username": "alice", "password": "alice's word"})
    assert visitor.person is None
    assert signed_in.get("/").status_code == 302, "who came by a password is out at once"
    assert visitor.signs_in().status_code == 302


def test_a_subject_has_one_account_whatever_else_is_said_of_them(provider: LyingProvider, db: None) -> None:
    made = []
    for name, email in (("Ann Other", "ann@example.org"), ("Ann Married", "new@example.org")):
        provider.person = {"sub": "s-1", "name": name, "email": email, "email_verified": True}
        visitor = Visitor(provider)
        visitor.signs_in()
        made.append(visitor.person)
    assert made[0] == made[1]
    assert (made[1].get_full_name(), made[1].has_usable_password()) == ("Ann Married", False)
    assert made[1].username == name_of_account(provider.issuer, "s-1")
    assert Identity.objects.get().email == "new@example.org"
    assert (made[1].is_staff, made[1].is_superuser) == (False, False)


def test_an_administrator_reads_who_a_person_is_at_the_provider(
    provider: LyingProvider, visitor: Visitor, office: Office
) -> None:
    boss = office.client(office.person("boss", office.north, "administrator"))
    for verified in (True, False):
        provider.person = {"sub": "s-1", "email": "ann@example.org", "email_verified": verified}
        visitor.signs_in()
        office_role(office, visitor.person, "viewer")
        page = text(boss.get(f"/people/{visitor.person.pk}/"))
        assert f"<code>{provider.issuer}</code> as <code>s-1</code>" in page
        assert ("ann@example.org" in page) is verified
        visitor.client.logout()


def test_one_subject_at_two_issuers_is_two_people(db: None) -> None:
    people = [admit_identity(issuer, "s-1", {}) for issuer in ("https://a.example", "https://b.example")]
    people.append(admit_identity("https://a.example", "S-1", {}))
    people += [admit_identity("https://c.example/1", "2", {}), admit_identity("https://c.example/", "12", {})]
    assert len({person.pk for person in people}) == len({person.get_username() for person in people}) == 5
    assert admit_identity("https://a.example", "s-1", {}) == people[0]


def test_an_account_that_bears_the_name_already_is_not_taken_over(db: None) -> None:
    taken = User.objects.create_user(name_of_account("https://a.example", "s-1"), password="its own")
    with pytest.raises(Conflict, match="does not belong to this sign-in"):
        admit_identity("https://a.example", "s-1", {})
    assert not Identity.objects.filter(user=taken).exists()


@pytest.mark.parametrize(
    "claims, shown",
    [
        ({"given_name": "Ann", "family_name": "Other", "name": "x"}, "Ann Other"),
        ({"given_name": "Ann"}, "Ann"),
        ({"preferred_username": "ann"}, "ann"),
        ({"name": " A\u202enn \n\0\ud800 B "}, "Ann B"),
        ({"name": "x" * 5000}, "x" * 150),
        ({"name": ["a"], "preferred_username": 7}, ""),
    ],
)
def test_the_name_that_is_shown_is_bounded_and_visible(db: None, claims: dict[str, Any], shown: str) -> None:
    person = admit_identity("https://a.example", "s-1", claims)
    person.refresh_from_db()
    assert person.get_full_name() == shown  # type: ignore[attr-defined]


def test_an_account_that_is_switched_off_is_refused_and_out_at_once(visitor: Visitor, office: Office) -> None:  # D5
    visitor.signs_in()
    person, other = visitor.person, Visitor(visitor.provider)
    office_role(office, person, "approver")
    assert visitor.client.get("/").status_code == 200
    User.objects.filter(pk=person.pk).update(is_active=False)
    assert visitor.client.get("/").status_code == 302
    answer = other.signs_in()
    assert (answer.status_code, other.person) == (403, None)
    assert "Your account is switched off here" in text(answer)
    refused = AuditEntry.objects.get(type="sign_in.refused")
    assert (refused.tenant, refused.payload["person"]) == (office.north, f"user:{person.pk}")


def office_role(office: Office, person: User, role: str) -> None:
    grant_role(person, office.north, role)


def test_a_role_that_is_taken_is_gone_at_the_next_deed_and_the_draft_is_kept(
    visitor: Visitor, office: Office
) -> None:  # D5
    visitor.signs_in()
    office_role(office, visitor.person, "approver")
    approval = office.approval(office.ask())
    address = f"/approvals/{approval.id}/"
    assert visitor.client.get(address).status_code == 200
    for leave, status in (
        (lambda: visitor.person.memberships.all().delete(), 403),
        (lambda: User.objects.filter(pk=visitor.person.pk).update(is_active=False), 403),
    ):
        leave()
        answer = visitor.client.post(f"{address}decide/", office.form(approval, "approve", reason="words of mine"))
        assert answer.status_code == status
        assert "words of mine" in text(answer)
    assert not Decision.objects.exists()


def test_roles_come_with_the_claims_and_go_with_them(
    settings: Any, provider: LyingProvider, visitor: Visitor, office: Office
) -> None:
    settings.CAYU_OIDC_ROLES = json.dumps([
        {"claim": "groups", "value": "finance", "tenant": "north", "role": "approver", "tier": 2, "tools": ["refund*"]},
        {"claim": ["realm", "roles"], "value": "boss", "tenant": "south", "role": "administrator"},
        {"claim": "groups", "value": "finance", "tenant": "nowhere", "role": "viewer"},
        {"claim": "groups", "value": "finance", "tenant": "north", "role": "emperor"},
    ])  # fmt: skip
    provider.claims = {"groups": ["finance", "all"]}
    provider.userinfo = {"realm": {"roles": ["boss"]}}
    visitor.signs_in()
    person = visitor.person
    office_role(office, person, "viewer")
    held = {(row.tenant.slug, row.role): row for row in person.memberships.all()}
    assert set(held) == {("north", "approver"), ("south", "administrator"), ("north", "viewer")}
    approver = held["north", "approver"]
    assert (approver.tier, approver.tools, approver.origin) == (2, ["refund*"], "sign_in")

    provider.claims, provider.userinfo = {"groups": "all"}, {}
    Visitor(provider).signs_in()
    assert [row.role for row in person.memberships.all()] == ["viewer"], "what was given by hand stays"
    assert visitor.client.get("/").context["member"].actor.roles == ("viewer",), "the older sign-in too"
    kinds = list(AuditEntry.objects.filter(tenant=office.south).values_list("type", flat=True))
    assert kinds[-2:] == ["role.granted", "role.revoked"]


def test_a_role_by_hand_that_is_over_hides_no_claim(
    settings: Any, provider: LyingProvider, visitor: Visitor, office: Office
) -> None:
    visitor.signs_in()
    over = timezone.now() + timedelta(days=1)
    grant_role(visitor.person, office.north, "viewer", limits=Limits(valid_until=over))
    held = visitor.person.memberships
    held.update(valid_from=over - timedelta(days=9), valid_until=over - timedelta(days=8))
    settings.CAYU_OIDC_ROLES = json.dumps([{"claim": "sub", "value": "s-1", "tenant": "north", "role": "viewer"}])
    Visitor(provider).signs_in()
    row = held.get()
    assert (row.origin, row.valid_until) == ("sign_in", None)


def test_two_first_sign_ins_at_once_make_one_account(monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    first = admit_identity("https://a.example", "s-1", {})
    asked: list[str] = []

    def not_yet(issuer: str, subject: str) -> Identity | None:
        """As the second one sees it: nobody at its first look."""
        asked.append(subject)
        return None if len(asked) == 1 else find_identity(issuer, subject)

    monkeypatch.setattr("cayu_review.services.identity.find_identity", not_yet)
    assert admit_identity("https://a.example", "s-1", {}) == first
    assert (len(asked), User.objects.count()) == (2, 1)


def test_a_sign_in_and_its_end_stand_on_the_chain(visitor: Visitor, office: Office) -> None:
    visitor.signs_in()
    office_role(office, visitor.person, "viewer")
    again = Visitor(visitor.provider)
    again.signs_in()
    again.client.post("/accounts/logout/")
    entries = list(AuditEntry.objects.filter(tenant=office.north, type__startswith="sign_in.").order_by("seq"))
    assert [entry.type for entry in entries] == ["sign_in.succeeded", "sign_in.ended"]
    assert entries[0].payload["how"] == "oidc"


def test_the_way_leads_on_within_this_site_alone(visitor: Visitor) -> None:
    assert visitor.signs_in(next="/sessions/?state=open")["Location"] == "/sessions/?state=open"
    for elsewhere in ("https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "x"):
        assert Visitor(visitor.provider).signs_in(next=elsewhere)["Location"] == "/"


def test_what_was_being_sent_comes_back_to_its_form(visitor: Visitor, office: Office) -> None:
    visitor.signs_in()
    office_role(office, visitor.person, "approver")
    visitor.client.logout()
    approval = office.approval(office.ask())
    address = f"/approvals/{approval.id}/"
    refused = visitor.client.post(f"{address}decide/", office.form(approval, "deny", reason="too <much>"))
    assert refused.status_code == 403
    kept = {name: refused.context[name] for name in ("next", "draft")}
    assert visitor.signs_in(**kept)["Location"] == address
    assert "too &lt;much&gt;</textarea>" in text(visitor.client.get(address))


def test_the_draft_survives_a_sign_in_that_was_refused(provider: LyingProvider, visitor: Visitor) -> None:
    provider.claims = {"aud": "another"}
    page = text(visitor.signs_in(next="/approvals/", draft="words of mine"))
    assert 'name="draft" value="words of mine"' in page
    assert 'name="next" value="/approvals/"' in page


def test_tabs_that_expired_at_once_come_back_each_to_its_own_page(visitor: Visitor) -> None:
    pages = [f"/sessions/?tab={number}" for number in range(3)]
    ways = [visitor.at_provider(visitor.begin(next=page)) for page in pages]
    assert [visitor.back(way)["Location"] for way in reversed(ways)] == list(reversed(pages))
    assert visitor.client.post("/accounts/oidc/", {"next": "/start/"})["Location"] == "/start/"


def test_a_sign_in_form_from_before_leads_on(visitor: Visitor) -> None:
    tab = Client(enforce_csrf_checks=True)
    tab.cookies = visitor.client.cookies
    visitor.signs_in()
    for form in ("/accounts/oidc/", "/accounts/login/"):
        stale = {"next": "/sessions/", "csrfmiddlewaretoken": "x" * 64}
        assert tab.post(form, stale)["Location"] == "/sessions/"
        kept = tab.post(form, {**stale, "draft": "words of mine"})
        assert (kept.status_code, "words of mine" in text(kept)) == (403, True)


def test_a_sign_in_is_begun_by_a_form_of_this_site_alone(provider: LyingProvider) -> None:
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/accounts/oidc/").status_code == 403
    assert strict.get("/accounts/oidc/").status_code == 405


def test_sign_ins_that_are_begun_and_left_are_bounded(settings: Any, visitor: Visitor) -> None:
    ways = [visitor.begin() for _ in range(settings.OIDC_MAX_STATES + 3)]
    assert len(visitor.client.session["oidc_states"]) == settings.OIDC_MAX_STATES
    assert visitor.back(visitor.at_provider(ways[0])).status_code == 400
    assert visitor.back(visitor.at_provider(ways[-1])).status_code == 302


def test_the_session_key_is_a_new_one_after_a_sign_in(visitor: Visitor) -> None:
    way = visitor.at_provider(visitor.begin())
    before = visitor.client.session.session_key
    visitor.back(way)
    assert visitor.client.session.session_key != before
    assert Client(headers={"Cookie": f"sessionid={before}"}).get("/").status_code == 302


def test_a_sign_in_lasts_half_a_day_whatever_is_done_meanwhile(visitor: Visitor, office: Office) -> None:
    visitor.signs_in()
    office_role(office, visitor.person, "viewer")
    assert 11 * 3600 < visitor.client.session.get_expiry_age() <= 12 * 3600
    session = visitor.client.session
    session.set_expiry(timezone.now() + timedelta(seconds=1800))
    session.save()
    visitor.client.post("/accounts/tenant/", {"tenant": str(office.north.pk)})
    assert visitor.client.session.get_expiry_age() <= 1800


def test_a_tab_whose_session_got_a_new_key_meanwhile_is_told_so_and_keeps_the_cookie(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = visitor.at_provider(visitor.begin())
    save = SessionStore.save

    def gone(store: SessionStore, must_create: bool = False) -> None:
        WebSession.objects.all().delete()
        save(store, must_create)

    monkeypatch.setattr(SessionStore, "save", gone)
    answer = visitor.back(path)
    assert (answer.status_code, "Begin it again" in text(answer)) == (400, True)
    assert "sessionid" not in answer.cookies


def test_sign_out_ends_it_here_and_there(provider: LyingProvider, visitor: Visitor) -> None:
    visitor.signs_in()
    assert visitor.client.get("/accounts/logout/").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = visitor.client.cookies
    assert strict.post("/accounts/logout/").status_code == 403
    left = visitor.client.post("/accounts/logout/")
    assert visitor.person is None
    address = left.context["address"]
    assert address.startswith(f"{provider.issuer}/end?")
    assert visitor.at_provider(address) == "/accounts/login/"
    (ended,) = provider.ended
    assert ended["id_token_hint"].count(".") == 2
    assert ended["client_id"] == "cayu"


def test_sign_out_is_enough_here_for_a_provider_without_and_for_passwords(
    provider: LyingProvider, visitor: Visitor, office: Office
) -> None:
    provider.document = {"end_session_endpoint": None}
    visitor.signs_in()
    assert visitor.client.post("/accounts/logout/")["Location"] == "/accounts/login/"
    visitor.client.post("/accounts/login/", {"username": "alice", "password": "alice's word"})
    assert visitor.client.post("/accounts/logout/")["Location"] == "/accounts/login/"


def test_endpoints_can_be_given_and_then_nothing_is_discovered(
    settings: Any, provider: LyingProvider, visitor: Visitor
) -> None:
    provider.document = {"issuer": "https://another.example"}
    here = provider.issuer
    given = {"authorization": f"{here}/authorize?tenant=7", "token": f"{here}/token", "jwks": f"{here}/jwks"}
    settings.CAYU_OIDC_ENDPOINTS = json.dumps(given)
    assert visitor.signs_in().status_code == 302
    assert provider.asked[0]["tenant"] == "7"
    assert visitor.person.get_full_name() == "", "no userinfo was given"


def test_the_api_answers_401_and_never_leads_away(provider: LyingProvider, client: Client) -> None:
    for method, address in (("get", "/api/v1/sessions/"), ("post", "/api/v1/sessions/")):
        answer = getattr(client, method)(address)
        assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")


def test_no_page_allows_forms_to_the_provider(provider: LyingProvider, visitor: Visitor) -> None:
    for page in (visitor.client.get("/accounts/login/"), visitor.client.post("/accounts/oidc/")):
        assert "form-action 'self'" in page["Content-Security-Policy"]
        assert provider.issuer not in page["Content-Security-Policy"]
