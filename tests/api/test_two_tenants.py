"""D1: every registered route, asked for another tenant's objects. A route that is added later is walked by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from cayu_review.services.membership import grant_role
from cayu_runtime.models import Event, Session, Tenant
from tests import rows
from tests.api.clients import agent_client, problem, token_of
from tests.web.office import Office

SECRET = "north-order-1042"
PARAMETER = re.compile(r"<(?:[^:>]+:)?([^>]+)>")
GROUP = re.compile(r"\(\?P<([a-z_]+)>[^)]*\)")


@dataclass(frozen=True)
class Route:
    """`path` with its parameters, as Django has it; `names` are those that it takes."""

    path: str
    names: tuple[str, ...]


def routes(resolver: Any = None, prefix: str = "/") -> Iterator[Route]:
    for entry in (resolver or get_resolver()).url_patterns:
        path = prefix + _as_route(entry)
        if isinstance(entry, URLResolver):
            yield from routes(entry, path)
        else:
            assert isinstance(entry, URLPattern)
            yield Route(path, tuple(PARAMETER.findall(path)))


def _as_route(entry: URLPattern | URLResolver) -> str:
    text = str(entry.pattern)
    if isinstance(entry.pattern, RoutePattern):
        return text
    return GROUP.sub(r"<\1>", text).strip("^$").replace("\\Z", "").replace("\\", "")


@pytest.fixture
def north(office: Office) -> dict[str, str]:
    """An object of north for each parameter that a route may take."""
    session = office.ask(("refund", {"order": SECRET}), task=f"refund {SECRET}")
    approval = office.approval(session)
    call = approval.call
    rows.proposal(session=session, tenant=office.north, recorded_by=call, action_id="north-action")
    return {
        "session_id": session.session_id,
        "approval_id": str(approval.id),
        "effect_id": str(office.effect(session).id),
        "call_id": str(call.id),
        "attachment_id": str(rows.attachment(call=call).id),
        "action_id": "north-action",
        "question_id": str(rows.question(session=session, call=call).id),
        "person_id": str(office.bob.pk),
        "token_id": str(token_of(office.bob, office.north)[0].pk),
        "grant_id": str(rows.grant(tenant=office.north).pk),
        "pause_id": str(rows.pause(tenant=office.north, tool="nothing of this test").pk),
    }


# What a route may take that names no tenant's object.
HARMLESS = {"rest": "no/such/place", "url": "no/such/page", "app_label": "cayu_runtime", "content_type_id": "1"}


def address(route: Route, north: dict[str, str], tenant: Tenant) -> str:
    values = {**HARMLESS, **north, "object_id": _in_admin(route, tenant), "id": _in_admin(route, tenant)}
    unknown = [name for name in route.names if name not in values]
    assert not unknown, f"{route.path} takes {unknown}: say in this test which object of north that is."
    return PARAMETER.sub(lambda found: values[found.group(1)], route.path)


def _in_admin(route: Route, tenant: Tenant) -> str:
    """The key of a row of north of the model whose admin page this is."""
    words = route.path.split("/")
    model: Any = next((m for m in apps.get_models() if [m._meta.app_label, m._meta.model_name] == words[2:4]), None)
    if model is None:
        return "1"
    owned = any(field.name == "tenant" for field in model._meta.get_fields())
    row = (model._default_manager.filter(tenant=tenant) if owned else model._default_manager.all()).first()
    return str(row.pk) if row else "1"


def staff_of(tenant: Tenant, name: str) -> User:
    """Somebody who may see whatever the admin shows to staff of this tenant."""
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label__in=("cayu_runtime", "cayu_review")))
    for role in ("viewer", "approver"):
        grant_role(user, tenant, role)
    return user


@pytest.mark.parametrize("who", ["person", "staff", "administrator", "token"])
def test_no_route_shows_or_moves_another_tenants_objects(who: str, office: Office, north: dict[str, str]) -> None:
    person = staff_of(office.south, "sue") if who == "staff" else office.carol
    if who == "administrator":
        grant_role(office.carol, office.south, "administrator")
    headers = {"Authorization": f"Bearer {token_of(person, office.south)[1]}"} if who == "token" else {}
    before = (Event.objects.count(), Session.objects.get().updated_at)
    walked = []
    for route in routes():
        path = address(route, north, office.north)
        names_an_object = bool(set(route.names) & (set(north) | {"object_id", "id"}))
        answers = []
        for method in ("get", "post"):
            client = Client(headers=headers)
            if who != "token":
                client.force_login(person)
            kind = {"content_type": "application/json"} if path.startswith("/api/") else {}
            answers.append(getattr(client, method)(path, **(kind if method == "post" else {})))
        statuses = [answer.status_code for answer in answers]
        for answer in answers:
            told = b"".join(answer.streaming_content) if answer.streaming else answer.content
            assert answer.status_code < 500 or path == "/health/ready", path  # no worker runs here
            for secret in (SECRET, north["session_id"] if north["session_id"] not in path else SECRET):
                assert secret.encode() not in told, path
        if names_an_object:
            walked.append(path)
            judge(path, statuses, by_token=who == "token")
    assert (Event.objects.count(), Session.objects.get().updated_at) == before
    assert len(walked) > 20


def judge(path: str, statuses: list[int], *, by_token: bool) -> None:
    if path.startswith("/admin/"):
        assert set(statuses) <= {302, 403, 404, 405}, (path, statuses)
    elif by_token and not path.startswith("/api/"):
        assert set(statuses) <= {302, 403, 405}, (path, statuses)  # a token opens no page
    else:
        assert 404 in statuses, (path, statuses)
        assert set(statuses) <= {404, 405}, (path, statuses)


def test_an_id_in_a_query_or_a_body_is_not_found_either(office: Office, north: dict[str, str]) -> None:
    client = agent_client(office.carol, office.south)
    for path in ("pending-actions/", "proposals/"):
        problem(client.get(path, {"session_id": north["session_id"]}), 404, "not_found")
    proposal = {"session_id": north["session_id"], "tool": "refund", "fields": {"action_id": "a-1"}}
    problem(client.post("proposals/", proposal), 404, "not_found")


def test_the_walk_finds_pages_admin_and_api(db: None) -> None:
    paths = {route.path for route in routes()}
    assert {"/approvals/<uuid:approval_id>/", "/api/v1/sessions/<session_id:session_id>/"} <= paths
    assert any(path.startswith("/admin/") and "object_id" in path for path in paths)
