"""What an administrator makes for others gives them no second voice: tokens, grants, passwords (CASES A22)."""

from __future__ import annotations

import pytest

from cayu_review.services.identity import admit_identity
from cayu_review.services.membership import grant_role
from cayu_review.services.token import create_token
from cayu_runtime.errors import InvalidRequest
from tests.web.office import Office
from tests.web.test_permission_matrix import (
    Scene,
    decide_api,
    decide_page,
    grant_page,
    permitted,
    revoke_api,
    revoke_page,
)


def test_by_four_eyes_who_made_the_token_decides_nothing_that_it_asked_for(office: Office) -> None:  # A22
    maker = office.person("ada", office.north, "administrator", "approver")
    actor = office.actor(maker, office.north)
    create_token(office.north, "robot", office.bob, ["read", "run"], 1, actor=actor)
    scene_of = Scene(office, "a", maker, office.client(maker))
    for deed in (decide_page, decide_api, revoke_page, revoke_api):
        assert deed(scene_of) is False
    approval = office.approval(office.ask(by=office.erin))
    assert permitted(scene_of.post(f"/approvals/{approval.pk}/decide/", office.form(approval, "approve")))


def test_who_makes_tokens_for_others_grants_nothing_in_advance(office: Office) -> None:  # A22
    maker = office.person("ada", office.north, "administrator", "approver")
    other = office.person("ben", office.north, "administrator", "approver")
    actor, second = office.actor(maker, office.north), office.actor(other, office.north)
    office.ask()
    create_token(office.north, "own", maker, ["read"], 1, actor=actor)
    scene_of = Scene(office, "a", maker, office.client(maker))
    assert grant_page(scene_of) is True
    with pytest.raises(InvalidRequest, match="standing grant that lives"):
        create_token(office.north, "robot", office.bob, ["run"], 1, actor=actor)
    create_token(office.north, "robot", office.bob, ["run"], 1, actor=second)
    assert grant_page(Scene(office, "a", other, office.client(other))) is False


def test_a_password_is_not_set_for_who_comes_from_the_provider(office: Office) -> None:
    boss = office.client(office.person("ada", office.north, "administrator"))
    person = admit_identity("https://id.example.org", "s-1", {})
    grant_role(person, office.north, "viewer")
    form = {"usable_password": "true", "password1": "a long enough w0rd", "password2": "a long enough w0rd"}
    assert boss.post(f"/admin/auth/user/{person.pk}/password/", form).status_code == 403
    person.refresh_from_db()
    assert not person.has_usable_password()
