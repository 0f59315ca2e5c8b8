"""A provider that lies, one lie at a time: nobody is signed in, no account is made, and a sentence says why."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from django.contrib.auth.models import User
from django.test import Client

from cayu_review.models import Identity
from tests.lying_provider import ANOTHER, CLIENT, SECRET, LyingProvider
from tests.web.office import Office
from tests.web.visitor import Visitor

Lie = Callable[[LyingProvider], Any]


def claims(**said: Any) -> Lie:
    return lambda provider: provider.claims.update(said)


def without_kid(provider: LyingProvider) -> None:
    provider.header = {"kid": None}
    provider.published = {"keys": [*provider.published["keys"], *LyingProvider().published["keys"]]}


def unsigned(provider: LyingProvider) -> None:
    said = {"iss": provider.issuer, "aud": CLIENT, "sub": "s-1", "exp": time.time() + 60, "iat": time.time()}
    provider.id_token = jwt.encode(
        {**said, "nonce": provider.asked[-1]["nonce"] if provider.asked else "n"}, "", "none"
    )


def symmetric_key_published(provider: LyingProvider) -> None:
    provider.sign_with_secret()
    provider.published = {"keys": [{"kty": "oct", "k": "a25vd24", "kid": "one"}]}


LIES: dict[str, tuple[Lie, str]] = {
    "another issuer": (claims(iss=ANOTHER), "another identity provider"),
    "an issuer with one slash more": (lambda p: p.claims.update(iss=p.issuer + "/"), "another identity provider"),
    "another audience": (claims(aud="another"), "made for another application"),
    "an audience of others": (claims(aud=["another", "third"]), "made for another application"),
    "no audience": (claims(aud=None), "lacks something"),
    "several audiences and no azp": (claims(aud=[CLIENT, "another"]), "given to another application"),
    "several audiences, azp another": (claims(aud=[CLIENT, "another"], azp="another"), "given to another application"),
    "azp another": (claims(azp="another"), "given to another application"),
    "no subject": (claims(sub=None), "lacks something"),
    "an empty subject": (claims(sub=""), "does not say who you are"),
    "a subject that is a number": (claims(sub=7), "does not say who you are"),
    "a subject with a zero character": (claims(sub="s\0"), "does not say who you are"),
    "a subject without end": (claims(sub="s" * 256), "does not say who you are"),
    "another subject in userinfo": (lambda p: p.userinfo.update(sub="s-2"), "different people"),
    "no subject in userinfo": (lambda p: p.userinfo.update(sub=None), "different people"),
    "another nonce": (claims(nonce="another"), "does not belong to the sign-in"),
    "no nonce": (claims(nonce=None), "lacks something"),
    "a nonce that is a list": (claims(nonce=["n"]), "does not belong to the sign-in"),
    "expired": (lambda p: p.claims.update(exp=int(time.time()) - 120), "had expired"),
    "no expiry": (claims(exp=None), "lacks something"),
    "an expiry that is no number": (claims(exp="soon"), "no token that can be read"),
    "issued in the future": (lambda p: p.claims.update(iat=int(time.time()) + 600), "not valid yet"),
    "valid only later": (lambda p: p.claims.update(nbf=int(time.time()) + 600), "not valid yet"),
    "signed in in the future": (lambda p: p.claims.update(auth_time=int(time.time()) + 600), "not valid yet"),
    "a kid that is not published": (lambda p: p.sign_with_another_key("two"), "does not publish"),
    "a published kid, another key": (lambda p: p.sign_with_another_key("one"), "signature"),
    "no kid, and several keys": (without_kid, "does not publish"),
    "the client's secret as key": (lambda p: p.sign_with_secret(), "not signed in a way"),
    "a symmetric key, published": (symmetric_key_published, "not signed in a way"),
    "no signature": (unsigned, "not signed in a way"),
    "no token": (lambda p: setattr(p, "id_token", False), "no token that can be read"),
    "a token that is none": (lambda p: setattr(p, "id_token", "a.b.c"), "no token that can be read"),
    "a token without end": (lambda p: setattr(p, "id_token", "a" * 100_000), "no token that can be read"),
    "keys that are none": (lambda p: setattr(p, "published", {"keys": "none"}), "does not publish"),
    "a key that is none": (lambda p: setattr(p, "published", {"keys": [None, {"kty": "RSA"}]}), "does not publish"),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_refused_with_its_sentence(provider: LyingProvider, visitor: Visitor, lie: str) -> None:
    tell, sentence = LIES[lie]
    address = visitor.begin()
    tell(provider)
    answer = visitor.back(visitor.at_provider(address))
    assert_refused(answer, sentence)
    assert visitor.person is None
    assert not User.objects.exists()
    assert not Identity.objects.exists()


def assert_refused(answer: Any, sentence: str) -> None:
    text = answer.content.decode()
    assert answer.status_code == 403
    assert "You are not signed in" in text
    assert sentence in text
    assert "Try again with Example ID" in text, "there is a way back"


def test_without_a_lie_the_same_way_leads_in(visitor: Visitor) -> None:
    answer = visitor.signs_in()
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert visitor.person.get_full_name() == "Ann Other"


ALLOWED: dict[str, Lie] = {
    "one audience as text": claims(aud=CLIENT),
    "several audiences, azp us": claims(aud=[CLIENT, "another"], azp=CLIENT),
    "azp us": claims(azp=CLIENT),
    "expired within the leeway": lambda p: p.claims.update(exp=int(time.time()) - 5),
    "issued within the leeway": lambda p: p.claims.update(iat=int(time.time()) + 5),
    "signed in at no known time": claims(auth_time=None),
}


@pytest.mark.parametrize("how", ALLOWED)
def test_what_the_standard_allows_is_no_lie(provider: LyingProvider, visitor: Visitor, how: str) -> None:
    ALLOWED[how](provider)
    assert visitor.signs_in().status_code == 302


def test_the_one_key_of_a_provider_needs_no_name(provider: LyingProvider, visitor: Visitor) -> None:
    provider.header = {"kid": None}
    assert visitor.signs_in().status_code == 302


def test_a_wrong_verifier_is_refused_by_the_provider_and_said_here(visitor: Visitor) -> None:
    path = visitor.at_provider(visitor.begin())
    session = visitor.client.session
    (flow,) = session["oidc_states"].values()
    flow["code_verifier"] = "x" * 64
    session.save()
    assert_refused(visitor.back(path), "did not accept the way back")
    assert visitor.person is None


def test_the_challenge_is_sha_256_and_the_verifier_stays_here(provider: LyingProvider, visitor: Visitor) -> None:
    visitor.at_provider(visitor.begin())
    (asked,) = provider.asked
    (flow,) = visitor.client.session["oidc_states"].values()
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["nonce"]) >= 32
    assert len(asked["state"]) >= 32
    assert flow["code_verifier"] not in asked.values()


def test_a_code_that_was_used_is_refused_in_another_sign_in(visitor: Visitor) -> None:
    used = visitor.at_provider(visitor.begin())
    assert visitor.back(used).status_code == 302
    other = Visitor(visitor.provider)
    fresh = other.at_provider(other.begin())
    code = used.split("code=")[1].split("&")[0]
    own = fresh.split("code=")[1].split("&")[0]
    assert_refused(other.back(fresh.replace(own, code)), "did not accept the way back")
    assert other.person is None


def test_an_answer_is_taken_in_the_browser_that_asked_and_once(visitor: Visitor) -> None:
    path = visitor.at_provider(visitor.begin())
    stranger = Client().get(path)
    assert stranger.status_code == 400
    assert "another browser, too long ago" in stranger.content.decode()
    assert visitor.back(path).status_code == 302
    again = visitor.back(path)
    assert (again.status_code, again["Location"]) == (302, "/"), "who is signed in already goes on"
    visitor.client.logout()
    assert visitor.back(path).status_code == 400


def test_an_unverified_address_of_an_administrator_links_nothing(
    provider: LyingProvider, visitor: Visitor, office: Office
) -> None:  # D4
    boss = office.person("boss", office.north, "administrator")
    boss.email = "boss@example.org"
    boss.save()
    for verified in (False, None, "true", True):
        provider.person = {
            "sub": f"stranger-{verified}", "email": "boss@example.org", "email_verified": verified, "name": "boss",
            "preferred_username": "boss",
        }  # fmt: skip
        other = Visitor(provider)
        assert other.signs_in().status_code == 302
        assert other.person.pk != boss.pk
        assert not other.person.memberships.exists()
        assert other.client.get("/").status_code == 403
        identity = Identity.objects.get(user=other.person)
        assert identity.email == ("boss@example.org" if verified is True else "")


def test_an_address_gives_a_role_only_if_it_is_verified(
    provider: LyingProvider, visitor: Visitor, office: Office, settings: Any
) -> None:
    rule = {"claim": "email", "value": "boss@example.org", "tenant": "north", "role": "administrator"}
    settings.CAYU_OIDC_ROLES = json.dumps([rule])
    for verified in (False, None, "true", True):
        provider.person = {"sub": f"s-{verified}", "email": "boss@example.org", "email_verified": verified}
        other = Visitor(provider)
        other.signs_in()
        assert other.person.memberships.exists() is (verified is True), verified


def test_who_is_silent_about_an_address_verifies_none(provider: LyingProvider, visitor: Visitor) -> None:
    provider.claims = {"email_verified": True}
    provider.userinfo = {"email": "userinfo@example.org", "email_verified": False}
    visitor.signs_in()
    assert Identity.objects.get().email == ""


def test_an_address_is_verified_by_who_names_it(provider: LyingProvider, visitor: Visitor) -> None:
    provider.claims = {"email": "token@example.org"}
    provider.userinfo = {"email": "userinfo@example.org", "email_verified": True}
    visitor.signs_in()
    assert Identity.objects.get().email == ""


BROKEN: dict[str, Lie] = {
    "the token endpoint is down": lambda p: setattr(p, "token_status", 503),
    "the token endpoint talks something else": lambda p: setattr(p, "token_status", 202),
    "no discovery": lambda p: p.document.update(issuer=None),
    "no token endpoint": lambda p: p.document.update(token_endpoint=None),
    "an endpoint without transport": lambda p: p.document.update(token_endpoint="file:///etc/passwd"),
    "userinfo elsewhere": lambda p: p.document.update(userinfo_endpoint=f"{p.issuer}/nowhere"),
    "keys elsewhere": lambda p: p.document.update(jwks_uri=f"{p.issuer}/nowhere"),
    "keys at a port that nobody has": lambda p: p.document.update(jwks_uri="http://127.0.0.1:1/"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_provider_that_is_broken_is_a_page_and_never_a_500(
    provider: LyingProvider, visitor: Visitor, how: str
) -> None:
    BROKEN[how](provider)
    answer = visitor.client.post("/accounts/oidc/")
    if answer.status_code == 200:
        answer = visitor.back(visitor.at_provider(answer.context["address"]))
    assert answer.status_code == 403
    assert "You are not signed in" in answer.content.decode()
    assert visitor.person is None


def test_a_discovery_document_of_another_issuer_is_not_followed(provider: LyingProvider, visitor: Visitor) -> None:
    provider.document = {"issuer": ANOTHER}
    answer = visitor.client.post("/accounts/oidc/")
    assert "exactly what it calls itself" in answer.content.decode()


@pytest.mark.parametrize("query", ["error=access_denied&error_description=<b>", "code=", "code=x&iss=https://evil"])
def test_an_answer_that_is_none_ends_that_sign_in(visitor: Visitor, query: str) -> None:
    visitor.begin()
    (state,) = visitor.client.session["oidc_states"]
    answer = visitor.back(f"/accounts/oidc/callback/?state={state}&{query}")
    assert_refused(answer, "did not sign you in")
    assert b"<b>" not in answer.content
    assert visitor.client.session["oidc_states"] == {}
    assert visitor.back(f"/accounts/oidc/callback/?state={state}&code=x").status_code == 400


def test_logs_name_the_check_and_hold_nothing_of_the_token(
    provider: LyingProvider, visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    provider.claims = {"aud": "another", "name": "canary-of-the-token"}
    path = visitor.at_provider(visitor.begin())
    visitor.back(path)
    ours = [record for record in caplog.records if record.name != "werkzeug"]
    lines = "\n".join(f"{record.msg} {record.args}" for record in ours)
    assert "wrong_audience" in lines
    assert "GET /accounts/oidc/callback/" in lines
    for secret in ("canary-of-the-token", path.split("code=")[1].split("&")[0], SECRET, "eyJ"):
        assert secret not in lines
