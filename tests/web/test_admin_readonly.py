"""Nobody changes a record here: forged forms, bulk actions and every other method (CASES D3, D8)."""

import pytest
from django.contrib.auth.models import User
from django.db import models
from django.test import Client

from cayu_review.services.membership import grant_role
from cayu_runtime.models import Session, Worker
from tests import rows
from tests.web.office import Office
from tests.web.records import Rows, list_of, one_of_each, page_of


@pytest.fixture
def records(office: Office) -> Rows:
    return {**one_of_each(office.north), Worker: rows.worker()}


@pytest.fixture
def everything(office: Office) -> Client:
    """Somebody with all roles, who is a superuser and staff besides."""
    root = User.objects.create_superuser("root")
    for role in ("viewer", "approver", "auditor", "administrator"):
        grant_role(root, office.north, role)
    return office.client(root)


def contents(records: Rows) -> list[dict[str, object]]:
    return [values for model in records for values in model._base_manager.order_by("pk").values()]


def test_reading_changes_nothing_however_often(records: Rows, everything: Client) -> None:  # D3
    before = contents(records)
    for address in ["/admin/", *map(list_of, records), *map(page_of, records.values())] * 3:
        assert everything.get(address).status_code == 200
        assert everything.head(address).status_code == 200
    assert contents(records) == before


def test_a_forged_bulk_delete_is_refused(records: Rows, everything: Client) -> None:  # D8
    before = contents(records)
    for model, row in records.items():
        for post in ("", "yes"):
            form = {"action": "delete_selected", "_selected_action": [str(row.pk)], "index": "0", "post": post}
            assert everything.post(list_of(model), form).status_code == 405
    assert contents(records) == before


def test_forged_forms_are_refused_on_every_route_that_django_would_have(records: Rows, everything: Client) -> None:
    before = contents(records)
    for model, row in records.items():
        form = {**_form(row), "_save": "Save", "calls-TOTAL_FORMS": "1", "calls-INITIAL_FORMS": "0", "post": "yes"}
        assert everything.post(page_of(row), form).status_code == 405
        assert everything.post(list_of(model), {**form, "form-TOTAL_FORMS": "1"}).status_code == 405
        for route in ("add/", f"{row.pk}/delete/", f"{row.pk}/history/", f"{row.pk}/"):
            assert everything.post(f"{list_of(model)}{route}", form).status_code == 404
            assert everything.get(f"{list_of(model)}{route}").status_code == 404
    assert contents(records) == before


@pytest.mark.parametrize("method", ["put", "patch", "delete", "options"])
def test_no_other_method_is_answered(method: str, records: Rows, everything: Client) -> None:
    before = contents(records)
    for address in (list_of(Session), page_of(records[Session])):
        assert getattr(everything, method)(address).status_code == 405
    assert contents(records) == before


def test_a_page_of_a_record_has_no_form_that_sends_anything_but_the_menus(records: Rows, everything: Client) -> None:
    for row in records.values():
        page = everything.get(page_of(row)).content.decode().replace('<form method="dialog">', "")
        actions = [part.split('"')[0] for part in page.split('<form method="post" action="')[1:]]
        assert set(actions) <= {"/accounts/tenant/", "/accounts/logout/"}
        assert page.count("<form") == len(actions)


def _form(row: models.Model) -> dict[str, str]:
    return {field.name: str(field.value_from_object(row)) for field in row._meta.concrete_fields}
