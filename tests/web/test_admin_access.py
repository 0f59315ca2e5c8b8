"""Who reads which records: auditors those of their active tenant, and nobody any other's (CASES D1)."""

import pytest
from django.contrib.auth.models import Permission, User
from django.db import models
from django.test import Client
from pytest_django.fixtures import Settings

from cayu_review.models import Membership
from cayu_review.services.membership import grant_role
from cayu_runtime.models import DispatchPause, EffectRecord, Session, Tenant, ToolCall, Worker
from tests import rows
from tests.web.office import Office
from tests.web.records import Rows, list_of, one_of_each, page_of


@pytest.fixture
def north(office: Office) -> Rows:
    return one_of_each(office.north)


@pytest.fixture
def auditor(office: Office) -> Client:
    return office.client(office.person("ada", office.north, "auditor"))


def all_pages(of: Rows) -> list[str]:
    return ["/admin/", "/admin/cayu_runtime/", *map(list_of, of), *map(page_of, of.values())]


def test_who_is_not_signed_in_is_sent_to_the_one_sign_in(north: Rows, client: Client) -> None:
    for address in all_pages(north):
        answer = client.get(address, follow=True)
        assert answer.redirect_chain[-1][0] == f"/accounts/login/?next={address}"
    assert client.get("/admin/login/?next=https://elsewhere.example/")["Location"] == "/accounts/login/?next=/admin/"


def test_an_auditor_reads_every_record_of_the_tenant(north: Rows, auditor: Client) -> None:
    for address in all_pages(north):
        answer = auditor.get(address)
        assert answer.status_code == 200, address
        assert "no-store" in answer["Cache-Control"]
        assert auditor.head(address).status_code == 200


def test_every_table_is_there_and_the_sweep_misses_none(north: Rows, auditor: Client) -> None:
    from django.apps import apps
    from django.contrib import admin

    ours = {model for model in apps.get_models() if model._meta.app_label == "cayu_runtime"}
    assert set(north) | {Worker} == ours == {model for model in ours if admin.site.is_registered(model)}
    index = auditor.get("/admin/").content.decode()
    assert all(list_of(model) in index for model in north)
    assert list_of(Worker) not in index
    assert "django_q" not in index
    assert "/admin/auth/" not in index


@pytest.mark.parametrize("name", ["alice", "bob", "erin"])
def test_viewers_and_approvers_do_not_read_the_records_and_are_told_why(name: str, north: Rows, office: Office) -> None:
    client = office.client(getattr(office, name))
    for address in all_pages(north):
        answer = client.get(address, follow=True)
        assert answer.status_code == 403
        assert b"The records are for auditors" in answer.content
    assert b'href="/admin/"' not in client.get("/").content


def test_djangos_staff_flag_and_permissions_open_nothing(north: Rows, office: Office) -> None:
    staff = User.objects.create_user("staff", is_staff=True)
    staff.user_permissions.set(Permission.objects.all())
    client = office.client(staff)
    assert client.get("/admin/", follow=True).status_code == 403
    grant_role(staff, office.north, "viewer")
    for address in all_pages(north):
        assert client.get(address, follow=True).status_code == 403


def test_a_superuser_reads_no_tenants_records_without_the_role(north: Rows, office: Office) -> None:
    root = User.objects.create_superuser("root")
    client = office.client(root)
    assert client.get("/admin/").status_code == 200
    for model, row in north.items():
        assert client.get(list_of(model)).status_code == 403
        assert client.get(page_of(row)).status_code == 403
    worker = rows.worker()
    assert client.get(list_of(Worker)).status_code == client.get(page_of(worker)).status_code == 200
    grant_role(root, office.north, "auditor")
    assert client.get(page_of(north[Session])).status_code == 200


def test_another_tenants_records_are_not_there(north: Rows, office: Office, auditor: Client) -> None:  # D1
    south = one_of_each(office.south)
    for row in south.values():
        assert auditor.get(page_of(row)).status_code == 404, page_of(row)
    secrets = {str(row.pk) for row in south.values() if len(str(row.pk)) > 20} | {south[Session].session_id}
    for model in north:
        page = auditor.get(list_of(model)).content.decode()
        assert not [secret for secret in secrets if secret in page]
        assert auditor.get(list_of(model), {"q": south[Session].session_id}).context["table"].rows == []
        assert auditor.get(list_of(model), {"q": str(south[model].pk)}).context["table"].rows == []
        for name, within in _parents_of(model).items():
            assert auditor.get(list_of(model), {name: str(south[within].pk)}).status_code == 404


def _parents_of(model: type[models.Model]) -> dict[str, type[models.Model]]:
    from django.contrib import admin

    reader = admin.site.get_model_admin(model)
    return {name: within.model for name, within in getattr(reader, "within", {}).items()}


def test_a_pause_of_the_whole_deployment_is_every_tenants_to_read(office: Office, auditor: Client) -> None:
    everywhere = rows.pause(tenant=None)
    assert auditor.get(page_of(everywhere)).status_code == 200
    assert str(everywhere.pk) in auditor.get(list_of(DispatchPause)).content.decode()


def test_the_routes_that_know_no_tenant_are_closed(north: Rows, office: Office, auditor: Client) -> None:  # D1
    query = {"app_label": "cayu_runtime", "model_name": "toolcall", "field_name": "session", "term": "s"}
    root = office.client(User.objects.create_superuser("root"))
    for client in (auditor, root):
        assert client.get("/admin/autocomplete/", query).status_code == 404
        assert client.get(f"/admin/r/1/{north[Session].pk}/").status_code == 404
        for address in ("django_q/success/", "django_q/ormq/", "auth/group/", "admin/logentry/"):
            assert client.get(f"/admin/{address}").status_code == 404


@pytest.mark.parametrize("key", ["nonsense", "0", "-1", "9" * 40, "%00", "_00", "' or 1=1", "a/b"])
def test_an_address_that_names_nothing_is_a_404(key: str, north: Rows, auditor: Client) -> None:
    for model in north:
        assert auditor.get(f"{list_of(model)}{key}/change/").status_code == 404


def test_the_active_tenant_decides_what_is_read(north: Rows, office: Office) -> None:
    ada = office.person("ada", office.north, "auditor")
    grant_role(ada, office.south, "auditor")
    south = one_of_each(office.south)
    client = office.client(ada)
    assert client.get(page_of(south[ToolCall])).status_code == 404
    client.post("/accounts/tenant/", {"tenant": str(office.south.id)})
    assert client.get(page_of(south[ToolCall])).status_code == 200
    assert client.get(page_of(north[ToolCall])).status_code == 404


def test_a_role_in_one_tenant_gives_nothing_in_another(north: Rows, office: Office) -> None:
    ada = office.person("ada", office.north, "auditor")
    grant_role(ada, office.south, "approver")
    client = office.client(ada)
    client.post("/accounts/tenant/", {"tenant": str(office.south.id)})
    assert client.get(list_of(Session), follow=True).status_code == 403


def test_a_role_that_was_taken_away_ends_at_once(north: Rows, auditor: Client) -> None:
    assert auditor.get(page_of(north[EffectRecord])).status_code == 200
    Membership.objects.filter(role="auditor").delete()
    assert auditor.get(page_of(north[EffectRecord]), follow=True).status_code == 403


def test_with_no_authority_set_nobody_gets_in(north: Rows, office: Office, auditor: Client, settings: Settings) -> None:
    settings.CAYU_AUTHORITY = ""
    for client in (auditor, office.client(User.objects.create_superuser("root"))):
        for address in all_pages(north):
            assert client.get(address, follow=True).status_code == 403


def test_who_only_audits_starts_no_session_and_decides_nothing(office: Office, auditor: Client) -> None:
    session = office.ask()
    approval = office.approval(session)
    assert auditor.post("/start/", {"agent": "desk", "text": "x", "session_id": "s-1"}).status_code == 403
    assert auditor.post(f"/approvals/{approval.id}/decide/", office.form(approval, "approve")).status_code == 403
    assert auditor.get(f"/approvals/{approval.id}/").status_code == 200
    menu = auditor.get("/").content
    assert b'href="/admin/"' in menu
    assert Session.objects.count() == 1


def test_the_tenant_page_is_the_own_one(north: Rows, auditor: Client) -> None:
    assert len(auditor.get(list_of(Tenant)).context["table"].rows) == 1
