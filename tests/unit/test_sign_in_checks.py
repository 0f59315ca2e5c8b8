"""Half of a sign-in by a provider is refused at start; a rule that gives nothing is named."""

import json
from typing import Any

import pytest

from cayu_review import checks
from cayu_review.oidc.mapping import rules, wanted_roles
from cayu_runtime.services.tenant import create_tenant

WHOLE = {
    "CAYU_OIDC_ISSUER": "https://id.example/realm",
    "CAYU_OIDC_CLIENT_ID": "cayu",
    "CAYU_OIDC_CLIENT_SECRET": "known to both",
}
RULE = {"claim": "groups", "value": "finance", "tenant": "acme", "role": "approver"}


def said(settings: Any, **changed: Any) -> list[str]:
    for name, value in {**WHOLE, **changed}.items():
        setattr(settings, name, value)
    messages = list(checks.check_sign_in())
    assert all(message.hint and message.id == "cayu.E009" for message in messages)
    return [message.msg for message in messages]


def test_a_whole_one_is_let_through_and_so_is_none(settings: Any) -> None:
    assert list(checks.check_sign_in()) == []
    assert said(settings) == []
    assert said(settings, CAYU_PASSWORDS=False) == []
    assert said(settings, CAYU_OIDC_ISSUER="http://127.0.0.1:9400") == []
    assert said(settings, CAYU_OIDC_ENDPOINTS='{"end_session": "https://id.example/end"}') == []


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"CAYU_OIDC_ISSUER": ""}, "CAYU_OIDC_ISSUER is not"),
        ({"CAYU_OIDC_CLIENT_ID": ""}, "CAYU_OIDC_CLIENT_ID is missing"),
        ({"CAYU_OIDC_CLIENT_SECRET": ""}, "CAYU_OIDC_CLIENT_SECRET is missing"),
        ({"CAYU_OIDC_ISSUER": "http://id.example"}, "no https address"),
        ({"CAYU_OIDC_ISSUER": "id.example"}, "no https address"),
        ({"CAYU_OIDC_ISSUER": "https://"}, "no https address"),
        ({"CAYU_OIDC_ISSUER": "https://id.example/" + "x" * 255}, "no https address"),
        ({"CAYU_OIDC_SCOPES": "profile email"}, "lacks openid"),
        ({"CAYU_OIDC_ENDPOINTS": "{"}, "CAYU_OIDC_ENDPOINTS cannot be used"),
        ({"CAYU_OIDC_ENDPOINTS": "[]"}, "no JSON object"),
        ({"CAYU_OIDC_ENDPOINTS": '{"jwks": 7}'}, "no JSON object"),
        ({"CAYU_OIDC_ENDPOINTS": '{"jwks": "id.example/jwks"}'}, "one of its addresses is none"),
        ({"CAYU_OIDC_ENDPOINTS": '{"keys": "https://id.example"}'}, "it names keys"),
    ],
    ids=str,
)
def test_what_is_missing_is_said(settings: Any, changed: dict[str, str], sentence: str) -> None:
    (message,) = said(settings, **changed)
    assert sentence in message


def test_nobody_is_locked_out(settings: Any) -> None:
    settings.CAYU_PASSWORDS = False
    (message,) = checks.check_sign_in()
    assert "CAYU_PASSWORDS is off" in message.msg


@pytest.mark.parametrize(
    "listed, sentence",
    [
        ("{", "no JSON"),
        ({"claim": "groups"}, "no list of rules"),
        (["x"], "Rule 1: It is no object."),
        ([{**RULE, "role": "emperor"}], "There is no role 'emperor'"),
        ([{**RULE, "Tenant": "acme"}], "There is no Tenant"),
        ([{name: RULE[name] for name in ("claim", "value", "role")}], "It lacks: tenant"),
        ([{**RULE, "claim": [7]}], "are texts"),
        ([{**RULE, "value": ["finance"]}], "are texts"),
        ([{**RULE, "tools": "refund"}], "tools is no list"),
        ([{**RULE, "tier": 10}], "A tier is a whole number from 1 to 9"),
        ([{**RULE, "tier": "2"}], "A tier is a whole number from 1 to 9"),
        ([{**RULE, "role": "viewer", "tier": 2}], "Only an approver has a tier"),
        ([RULE, {**RULE, "tools": ["a*b"]}], "Rule 2: 'a*b' is no name among tools"),
    ],
    ids=str,
)
def test_a_rule_that_cannot_be_used_is_named_and_the_others_hold(settings: Any, listed: Any, sentence: str) -> None:
    settings.CAYU_OIDC_ROLES = listed if isinstance(listed, str) else json.dumps(listed)
    (message,) = checks.check_role_rules()
    assert (message.id, sentence in message.msg) == ("cayu.W003", True), message
    assert message.hint
    assert len(rules()[0]) == (listed[0] is RULE if isinstance(listed, list) else 0)


def test_rules_that_can_be_used_are_let_through(settings: Any) -> None:
    assert list(checks.check_role_rules()) == []
    settings.CAYU_OIDC_ROLES = json.dumps([RULE, {**RULE, "claim": ["realm_access", "roles"], "tools": ["refund*"]}])
    assert list(checks.check_role_rules()) == []


@pytest.mark.django_db
def test_an_unknown_tenant_is_warned_of(settings: Any) -> None:
    settings.CAYU_OIDC_ROLES = json.dumps([RULE, {**RULE, "tenant": "north"}])
    create_tenant("north", "North Ltd")
    (message,) = checks.check_role_tenants(databases=["default"])
    assert (message.id, "'acme'" in message.msg) == ("cayu.W004", True)
    assert list(checks.check_role_tenants(databases=[])) == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    "claims, holds",
    [
        ({"groups": ["a", "finance"]}, True),
        ({"groups": "finance"}, True),
        ({"groups": "finance department"}, False),
        ({"groups": ["finances"]}, False),
        ({"groups": {"finance": True}}, False),
        ({"groups": None}, False),
        ({"groups": [["finance"]]}, False),
        ({"realm_access": {"roles": ["boss"]}}, True),
        ({"realm_access": {"roles": {"boss": 1}}}, False),
        ({"realm_access": ["roles", "boss"]}, False),
        ({"realm_access.roles": ["boss"]}, False),
        ({}, False),
    ],
    ids=str,
)
def test_a_rule_holds_for_the_value_or_a_list_that_has_it(settings: Any, claims: dict[str, Any], holds: bool) -> None:
    nested = {**RULE, "claim": ["realm_access", "roles"], "value": "boss"}
    settings.CAYU_OIDC_ROLES = json.dumps([RULE, nested])
    tenant = create_tenant("acme", "Acme")
    wanted = wanted_roles(claims)
    assert set(wanted.get(tenant.id, {})) == ({"approver"} if holds else set())


@pytest.mark.django_db
def test_the_first_of_two_rules_says_how_far_a_role_reaches(settings: Any) -> None:
    settings.CAYU_OIDC_ROLES = json.dumps([{**RULE, "tier": 3}, {**RULE, "value": "all", "tier": 1}])
    tenant = create_tenant("acme", "Acme")
    assert wanted_roles({"groups": ["all", "finance"]})[tenant.id]["approver"].tier == 3
