"""Memberships as rows, and the services and the command that make them."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from cayu_review.models import Membership
from cayu_review.selectors.membership import memberships_of, roles_of
from cayu_review.services.membership import grant_role, revoke_role
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


def test_an_administrator_gives_and_takes_roles_in_their_tenant_alone(alice: User, north: Tenant) -> None:
    south = create_tenant("south", "South Ltd")
    boss = User.objects.create_user("boss")
    grant_role(boss, north, "administrator")
    actor = Actor(f"user:{boss.pk}", "boss", north.id, "web")
    assert grant_role(alice, north, "approver", actor=actor) is True
    assert revoke_role(alice, north, "approver", actor=actor) is True
    assert revoke_role(alice, north, "approver", actor=actor) is False
    grant_role(alice, south, "viewer")
    for service in (grant_role, revoke_role):
        for person in (
            actor,
            Actor(actor.subject, "boss", south.id, "web"),
            Actor(actor.subject, "b", north.id, "api"),
        ):
            with pytest.raises(NotPermitted):
                service(alice, south, "viewer", actor=person)
    assert roles_of(south.id, f"user:{alice.pk}") == {"viewer"}


def test_a_superuser_gives_roles_everywhere_as_long_as_they_are_one(alice: User, north: Tenant) -> None:
    root = User.objects.create_superuser("root")
    actor = Actor(f"user:{root.pk}", "root", None, "web", is_superuser=True)
    assert grant_role(alice, north, "approver", actor=actor) is True
    User.objects.filter(pk=root.pk).update(is_superuser=False)
    with pytest.raises(NotPermitted):
        revoke_role(alice, north, "approver", actor=actor)


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
