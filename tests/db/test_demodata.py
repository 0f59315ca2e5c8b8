"""`manage.py demodata` makes the demo's people once, and keeps their passwords those that `manage.py up` prints."""

from io import StringIO

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from cayu_review.models import Membership
from cayu_runtime.models import Tenant

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAYU_DEMO_REQUESTER_PASSWORD", "one-word")
    monkeypatch.setenv("CAYU_DEMO_APPROVER_PASSWORD", "other-word")


def demodata() -> None:
    call_command("demodata", stdout=StringIO())


def memberships() -> list[tuple[str, str]]:
    rows = Membership.objects.filter(tenant__slug="demo").order_by("user__username", "role")
    return list(rows.values_list("user__username", "role"))


def test_makes_the_tenant_and_its_people() -> None:
    demodata()
    assert Tenant.objects.get().name == "Demo Ltd"
    assert memberships() == [("approver", "approver"), ("approver", "viewer"), ("requester", "viewer")]
    people = get_user_model().objects.all()
    assert not any(person.is_staff or person.is_superuser for person in people)
    assert people.get(username="requester").check_password("one-word")
    assert people.get(username="approver").check_password("other-word")


def test_a_second_time_changes_nothing() -> None:
    demodata()
    before = list(get_user_model().objects.order_by("pk").values())
    demodata()
    assert list(get_user_model().objects.order_by("pk").values()) == before
    assert Tenant.objects.count() == 1
    assert len(memberships()) == 3


def test_a_password_that_was_changed_is_set_again() -> None:
    demodata()
    person = get_user_model().objects.get(username="requester")
    person.set_password("forgotten")
    person.save()
    demodata()
    person.refresh_from_db()
    assert person.check_password("one-word")


def test_a_missing_password_is_named_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAYU_DEMO_APPROVER_PASSWORD")
    with pytest.raises(CommandError, match="Set CAYU_DEMO_APPROVER_PASSWORD"):
        demodata()
    assert not Tenant.objects.exists()
    assert not get_user_model().objects.exists()


def test_an_account_that_is_switched_off_gets_a_sentence() -> None:
    demodata()
    Membership.objects.all().delete()
    get_user_model().objects.update(is_active=False)
    with pytest.raises(CommandError, match="switched off"):
        demodata()
