"""People and roles: an administrator's own tenant, every tenant for a superuser, and no way over the border."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cayu_review.models import Membership
from cayu_review.selectors.membership import roles_of
from cayu_review.services.membership import grant_role
from cayu_runtime.models import AuditEntry
from tests.web.office import Office

PEOPLE = "/admin/auth/user/"
ROLES = "/admin/cayu_review/membership/"
WORD = "a long enough w0rd"


@pytest.fixture
def boss(office: Office) -> Client:
    return office.client(office.person("boss", office.north, "administrator"))


@pytest.fixture
def root(office: Office) -> Client:
    return office.client(User.objects.create_superuser("root"))


def roles(office: Office, user: User) -> frozenset[str]:
    return roles_of(office.north.id, f"user:{user.pk}")


def role_form(office: Office, name: str, role: str, **changed: Any) -> dict[str, Any]:
    return {"user": name, "tenant": str(office.north.id), "role": role, **changed}


def account_form(user: User, **changed: Any) -> dict[str, Any]:
    return {"username": user.username, "first_name": "", "last_name": "", "email": "", "is_active": "on", **changed}


def new_person(name: str, **changed: Any) -> dict[str, Any]:
    return {"username": name, "usable_password": "true", "password1": WORD, "password2": WORD, **changed}


def test_an_administrator_gives_a_role_by_name_and_takes_it(office: Office, boss: Client) -> None:
    assert boss.post(f"{ROLES}add/", role_form(office, "bob", "approver")).status_code == 302
    assert roles(office, office.bob) == {"viewer", "approver"}
    held = Membership.objects.get(user=office.bob, role="approver")
    assert b"approver" in boss.get(f"{ROLES}{held.pk}/delete/").content
    assert boss.post(f"{ROLES}{held.pk}/delete/", {"post": "yes"}).status_code == 302
    assert roles(office, office.bob) == {"viewer"}


def test_an_administrator_sees_and_touches_no_other_tenants_roles(office: Office, boss: Client) -> None:
    theirs = Membership.objects.filter(tenant=office.south).first()
    assert theirs is not None
    assert b"carol" not in boss.get(ROLES).content
    assert boss.get(ROLES, {"q": "carol"}).context["table"].rows == []
    for route in ("change/", "delete/", "history/"):
        assert boss.get(f"{ROLES}{theirs.pk}/{route}").status_code == 404
        assert boss.post(f"{ROLES}{theirs.pk}/{route}", {"post": "yes"}).status_code == 404
    page = boss.post(f"{ROLES}add/", role_form(office, "bob", "approver", tenant=str(office.south.id)))
    assert page.status_code == 200
    assert b"South" not in boss.get(f"{ROLES}add/").content
    assert Membership.objects.filter(tenant=office.south).count() == 2


def test_a_role_is_not_changed_into_another(office: Office, root: Client) -> None:
    held = Membership.objects.get(user=office.bob)
    assert root.get(f"{ROLES}{held.pk}/change/").status_code == 200
    assert root.post(f"{ROLES}{held.pk}/change/", role_form(office, "bob", "approver")).status_code == 403
    assert roles(office, office.bob) == {"viewer"}


@pytest.mark.parametrize(
    "name, says",
    [("nobody", "nobody with this name"), ("off", "switched off"), ("bob", "already exists"), ("a\0b", "")],
)
def test_a_role_that_cannot_be_given_says_why(name: str, says: str, office: Office, boss: Client) -> None:
    User.objects.create_user("off", is_active=False)
    before = Membership.objects.count()
    answer = boss.post(f"{ROLES}add/", role_form(office, name, "viewer"))
    assert answer.status_code == 200
    assert says in answer.content.decode()
    assert Membership.objects.count() == before


def test_a_superuser_gives_roles_everywhere(office: Office, root: Client) -> None:
    form = role_form(office, "dave", "viewer", tenant=str(office.south.id))
    assert root.post(f"{ROLES}add/", form).status_code == 302
    assert roles_of(office.south.id, f"user:{office.dave.pk}") == {"viewer"}
    assert b"carol" in root.get(ROLES).content


def test_an_administrator_makes_an_account_with_its_first_role(office: Office, boss: Client) -> None:
    assert boss.post(f"{PEOPLE}add/", new_person("nina", role="approver")).status_code == 302
    nina = User.objects.get(username="nina")
    assert roles(office, nina) == {"approver"}
    assert nina.check_password(WORD)
    assert not nina.is_superuser
    assert not nina.is_staff
    answer = boss.post(f"{PEOPLE}add/", new_person("otto", role="owner"))
    assert answer.status_code == 200
    assert boss.post(f"{PEOPLE}add/", new_person("otto")).status_code == 200
    assert boss.post(f"{PEOPLE}add/", new_person("otto", role="viewer", password2="x")).status_code == 200
    assert not User.objects.filter(username="otto").exists()


def test_a_superuser_without_a_tenant_makes_an_account_without_a_role(office: Office, root: Client) -> None:
    assert root.post(f"{PEOPLE}add/", new_person("nina", role="approver")).status_code == 302
    assert not Membership.objects.filter(user__username="nina").exists()


def test_an_administrator_makes_nobody_a_superuser(office: Office, boss: Client, root: Client) -> None:
    extra = {"is_superuser": "on", "is_staff": "on", "user_permissions": ["1"], "groups": ["1"]}
    boss.post(f"{PEOPLE}add/", new_person("nina", role="viewer", **extra))
    for user in (User.objects.get(username="nina"), User.objects.get(username="boss"), office.bob):
        boss.post(f"{PEOPLE}{user.pk}/change/", account_form(user, **extra))
        user.refresh_from_db()
        assert not user.is_superuser
        assert not user.is_staff
        assert not user.user_permissions.exists()
    assert b"is_superuser" not in boss.get(f"{PEOPLE}{office.bob.pk}/change/").content
    root.post(f"{PEOPLE}{office.bob.pk}/change/", account_form(office.bob, is_superuser="on"))
    office.bob.refresh_from_db()
    assert office.bob.is_superuser


def test_an_administrator_switches_an_account_of_the_tenant_off_and_sets_its_password(
    office: Office, boss: Client
) -> None:
    address = f"{PEOPLE}{office.bob.pk}/"
    page = boss.get(f"{address}change/").content.decode()
    assert 'href="../password/"' in page
    assert not [part for part in office.bob.password.split("$")[1:] if part[:6] in page], "a piece of the hash is shown"
    form = {"usable_password": "true", "password1": WORD, "password2": WORD}
    assert boss.post(f"{address}password/", form).status_code == 302
    office.bob.refresh_from_db()
    assert office.bob.check_password(WORD)
    assert boss.post(f"{address}change/", account_form(office.bob, is_active="")).status_code == 302
    office.bob.refresh_from_db()
    assert not office.bob.is_active
    assert roles(office, office.bob) == frozenset()


def test_what_is_done_to_an_account_stands_on_the_audit_chain_without_its_password(
    office: Office, boss: Client
) -> None:
    boss.post(f"{PEOPLE}add/", new_person("nina", role="approver"))
    form = {"usable_password": "true", "password1": WORD, "password2": WORD}
    boss.post(f"{PEOPLE}{office.bob.pk}/password/", form)
    boss.post(f"{PEOPLE}{office.bob.pk}/change/", account_form(office.bob, is_active=""))
    entries = AuditEntry.objects.filter(tenant=office.north, type__startswith="account.").order_by("seq")
    assert [(entry.type, entry.payload["person_name"]) for entry in entries] == [
        ("account.made", "nina"),
        ("account.changed", "bob"),
        ("account.changed", "bob"),
    ]
    assert {entry.payload["by_name"] for entry in entries} == {"boss"}
    assert [entry.payload.get("is_active") for entry in entries] == [None, True, False]
    assert any("assword" in field for field in entries[1].payload["fields"])
    assert WORD not in json.dumps([entry.payload for entry in entries])


@pytest.mark.parametrize("also", ["role elsewhere", "superuser", "staff"])
def test_who_has_authority_elsewhere_is_read_and_not_changed(also: str, office: Office, boss: Client) -> None:
    if also == "role elsewhere":
        grant_role(office.bob, office.south, "viewer")
    else:
        User.objects.filter(pk=office.bob.pk).update(**{f"is_{also}": True})
    before = User.objects.filter(pk=office.bob.pk).values().get()
    address = f"{PEOPLE}{office.bob.pk}/"
    page = boss.get(f"{address}change/")
    assert page.status_code == 200
    assert boss.get(f"{address}history/").status_code == 403
    assert before["password"] not in page.content.decode()
    assert boss.post(f"{address}change/", account_form(office.bob, email="x@example.com")).status_code == 403
    form = {"usable_password": "true", "password1": WORD, "password2": WORD}
    assert boss.get(f"{address}password/").status_code == 403
    assert boss.post(f"{address}password/", form).status_code == 403
    assert User.objects.filter(pk=office.bob.pk).values().get() == before


def test_people_of_other_tenants_are_not_there(office: Office, boss: Client) -> None:  # D1
    assert b"carol" not in boss.get(PEOPLE).content
    assert boss.get(PEOPLE, {"q": "carol"}).context["table"].rows == []
    for user in (office.carol, office.dave):
        for route in ("change/", "password/", "history/", "delete/"):
            assert boss.get(f"{PEOPLE}{user.pk}/{route}").status_code in (403, 404)
            assert boss.post(f"{PEOPLE}{user.pk}/{route}", {"post": "yes"}).status_code in (403, 404)
        assert boss.get(f"{PEOPLE}{user.pk}/change/").status_code == 404
    assert b"bob" in boss.get(PEOPLE).content


def test_nobody_deletes_an_account_or_many_roles_at_once(office: Office, root: Client) -> None:  # D8
    people, held = User.objects.count(), Membership.objects.count()
    assert root.post(f"{PEOPLE}{office.bob.pk}/delete/", {"post": "yes"}).status_code == 403
    for address, rows in ((PEOPLE, User.objects.all()), (ROLES, Membership.objects.all())):
        keys = [str(row.pk) for row in rows]
        form = {"action": "delete_selected", "_selected_action": keys, "post": "yes", "index": "0"}
        assert root.post(address, form).status_code == 405
    assert (User.objects.count(), Membership.objects.count()) == (people, held)


@pytest.mark.parametrize("role", ["viewer", "approver", "auditor"])
def test_no_other_role_manages_people(role: str, office: Office) -> None:
    client = office.client(office.person("zoe", office.north, role))
    before = Membership.objects.count()
    for address in (PEOPLE, ROLES, f"{PEOPLE}add/", f"{ROLES}add/"):
        assert client.get(address, follow=True).status_code == 403
    assert client.get(f"{PEOPLE}{office.bob.pk}/change/", follow=True).status_code in (403, 404)
    client.post(f"{ROLES}add/", role_form(office, "zoe", "administrator"))
    client.post(f"{PEOPLE}add/", new_person("nina", role="viewer"))
    client.post(f"{PEOPLE}{office.bob.pk}/password/", {"password1": WORD, "password2": WORD})
    assert Membership.objects.count() == before
    assert not User.objects.filter(username="nina").exists()
    office.bob.refresh_from_db()
    assert not office.bob.check_password(WORD)


def test_an_administrator_reads_no_records(office: Office, boss: Client) -> None:
    assert boss.get("/admin/cayu_runtime/session/").status_code == 403
    index = boss.get("/admin/").content.decode()
    assert ROLES in index
    assert "/admin/cayu_runtime/" not in index


def test_lists_of_people_count_and_skip_nothing(office: Office, root: Client) -> None:  # D10
    def queries(address: str) -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert root.get(address).status_code == 200
        return [query["sql"].upper() for query in captured]

    few = [queries(PEOPLE), queries(ROLES)]
    people = User.objects.bulk_create(User(username=f"person-{n}") for n in range(200))
    Membership.objects.bulk_create(Membership(user=user, tenant=office.north, role="viewer") for user in people)
    many = [queries(PEOPLE), queries(ROLES), queries(f"{PEOPLE}{office.bob.pk}/history/")]
    assert [len(part) for part in many[:2]] == [len(part) for part in few]
    assert not [sql for part in many for sql in part if "COUNT(" in sql or "OFFSET" in sql]
    assert root.get(PEOPLE).context["next"]
