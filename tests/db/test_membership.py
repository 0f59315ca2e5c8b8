"""Memberships as rows, the service and the command that make them, and who may touch them in the admin."""

from io import StringIO

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client

from cayu_review.models import Membership
from cayu_review.selectors.membership import memberships_of, roles_of
from cayu_review.services.membership import grant_role
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import InvalidRequest, NotPermitted
from cayu_runtime.models import Tenant
from cayu_runtime.services.tenant import create_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def north(db: None) -> Tenant:
    return create_tenant("north", "North Ltd")


@pytest.fixture
def alice(db: None) -> User:
    return User.objects.create_user("alice")


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("grantrole", *arguments, stdout=out)
    return out.getvalue()


def test_a_role_is_granted_once_however_often_it_is_asked_for(alice: User, north: Tenant) -> None:
    assert grant_role(alice, north, "viewer") is True
    assert grant_role(alice, north, "viewer") is False
    assert grant_role(alice, north, "approver") is True
    assert Membership.objects.count() == 2
    assert roles_of(north.id, f"user:{alice.pk}") == {"viewer", "approver"}


def test_an_unknown_role_or_a_switched_off_account_is_refused_in_words(alice: User, north: Tenant) -> None:
    with pytest.raises(InvalidRequest, match=r"no role 'boss'\. The roles are: viewer, approver"):
        grant_role(alice, north, "boss")
    alice.is_active = False
    with pytest.raises(InvalidRequest, match="switched off"):
        grant_role(alice, north, "viewer")
    assert not Membership.objects.exists()


def test_somebody_who_grants_a_role_is_judged_by_the_authority(alice: User, north: Tenant) -> None:
    grant_role(alice, north, "approver")
    with pytest.raises(NotPermitted):
        grant_role(alice, north, "viewer", actor=Actor(f"user:{alice.pk}", "alice", north.id, "web"))
    assert Membership.objects.count() == 1


@pytest.mark.parametrize("subject", ["user:", "user:x", "user:999999", "token:1", "system:sweep", "user:1 or 1=1"])
def test_a_subject_that_is_no_person_holds_nothing(subject: str, north: Tenant) -> None:
    assert roles_of(north.id, subject) == frozenset()


def test_an_account_that_is_switched_off_holds_nothing(alice: User, north: Tenant) -> None:
    grant_role(alice, north, "approver")
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert roles_of(north.id, f"user:{alice.pk}") == frozenset()


def test_a_new_membership_never_changes_which_is_first(alice: User, north: Tenant) -> None:
    grant_role(alice, north, "viewer")
    grant_role(alice, create_tenant("a-first-by-name", "A"), "viewer")
    assert [held.tenant.slug for held in memberships_of(alice)] == ["north", "a-first-by-name"]


def test_the_database_refuses_an_unknown_role_and_a_second_row(alice: User, north: Tenant) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(user=alice, tenant=north, role="boss")
    Membership.objects.create(user=alice, tenant=north, role="viewer")
    with pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(user=alice, tenant=north, role="viewer")


def test_grantrole_says_what_it_did(alice: User, north: Tenant) -> None:
    assert run("alice", "north", "approver") == "alice is now approver in north (North Ltd).\n"
    assert run("alice", "north", "approver") == "alice was already approver in north (North Ltd).\n"


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("bob", "north", "viewer"), "no person 'bob'. Make one: manage.py createsuperuser --username bob"),
        (("Alice", "north", "viewer"), "it is spelled 'alice'"),
        (("alice", "nord", "viewer"), 'no tenant \'nord\'. Make it: manage.py createtenant nord --name "Its name"'),
        (("alice", "north", "boss"), "The roles are: viewer, approver"),
    ],
)
def test_grantrole_says_what_to_type(arguments: tuple[str, ...], says: str, alice: User, north: Tenant) -> None:
    with pytest.raises(CommandError) as refused:
        run(*arguments)
    assert says in str(refused.value)
    assert not Membership.objects.exists()


ADMIN = "/admin/cayu_review/membership/"


def test_an_administrator_edits_memberships_in_the_admin(alice: User, north: Tenant) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    answer = client.post(f"{ADMIN}add/", {"user": alice.pk, "tenant": str(north.id), "role": "approver"})
    assert answer.status_code == 302
    held = Membership.objects.get()
    assert (held.user, held.role) == (alice, "approver")
    assert client.get(ADMIN).status_code == 200
    client.post(f"{ADMIN}{held.pk}/delete/", {"post": "yes"})
    assert not Membership.objects.exists()


def test_staff_who_are_no_administrators_never_reach_them(alice: User, north: Tenant) -> None:
    grant_role(alice, north, "viewer")
    staff = User.objects.create_user("staff", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(content_type__app_label="cayu_review"))
    client = Client()
    client.force_login(staff)
    assert client.get(ADMIN).status_code == 403
    assert client.get(f"{ADMIN}{Membership.objects.get().pk}/change/").status_code == 403
    assert (
        client.post(f"{ADMIN}add/", {"user": staff.pk, "tenant": str(north.id), "role": "approver"}).status_code == 403
    )
    assert Membership.objects.count() == 1
