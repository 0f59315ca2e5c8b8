"""Who gets in: tokens, people, nobody; and what is refused before anybody reads it."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F
from django.test import Client
from pytest_django.fixtures import Settings

from cayu_review.models import ApiToken
from cayu_review.selectors.token import digest_of
from cayu_review.services.membership import grant_role
from cayu_review.services.token import create_token
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import InvalidRequest, NotPermitted
from cayu_runtime.models import Event, Session
from cayu_runtime.services.approval import decide_approval
from cayu_runtime.services.session import continue_session, interrupt_session, resume_session, start_session
from tests.api.clients import ApiClient, agent_client, person_client, problem, token_of
from tests.web.office import Office

START = {"agent": "desk", "text": "refund order 1042"}


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer cayu_unknown", "Basic Ym9iOng=", "cayu_unknown", "Bearer \xe9\xff"],
)
def test_a_wrong_token_is_401_and_never_a_redirect(header: str, office: Office) -> None:
    client = ApiClient(Client(), Authorization=header)
    for answer in (client.get("sessions/"), client.post("sessions/", START), client.get("no/such/")):
        problem(answer, 401, "not_authenticated")
        assert answer["WWW-Authenticate"].startswith("Bearer")


def test_nobody_is_401(office: Office) -> None:
    for answer in (ApiClient(Client()).get("sessions/"), ApiClient(Client()).post("sessions/", START)):
        problem(answer, 401, "not_authenticated")


def test_a_wrong_token_beside_a_good_cookie_is_refused(office: Office) -> None:
    client = Client()
    client.force_login(office.alice)
    problem(ApiClient(client, Authorization="Bearer cayu_x").get("sessions/"), 401, "not_authenticated")


def test_a_person_without_a_role_may_nothing(office: Office) -> None:
    problem(person_client(office.dave).get("sessions/"), 403, "not_permitted")


def test_a_token_is_256_random_bits_of_which_the_digest_is_kept(office: Office) -> None:
    token, text = token_of(office.bob, office.north)
    assert len(text) == len("cayu_") + 43
    assert token.digest == digest_of(text)
    stored = ApiToken.objects.values().get()
    assert text not in str(stored)
    assert text.removeprefix("cayu_") not in str(stored)


@pytest.mark.parametrize("ended", ["expired", "revoked", "switched off"])
def test_an_ended_token_ends_at_once(ended: str, office: Office) -> None:
    token, text = token_of(office.bob, office.north)
    client = ApiClient(Client(), Authorization=f"Bearer {text}")
    assert client.get("sessions/").status_code == 200
    if ended == "expired":
        past = F("created_at") - timedelta(days=40)
        ApiToken.objects.update(created_at=past, expires_at=F("expires_at") - timedelta(days=40))
    elif ended == "revoked":
        call_command("revoketoken", str(token.pk), stdout=StringIO())
    else:
        office.bob.is_active = False
        office.bob.save()
    problem(client.get("sessions/"), 401, "not_authenticated")


def test_a_token_is_worth_what_its_persons_roles_are(office: Office) -> None:
    client = agent_client(office.bob, office.north)
    office.bob.memberships.all().delete()
    problem(client.get("sessions/"), 403, "not_permitted")


def test_a_token_may_no_more_than_its_person(office: Office) -> None:
    client = agent_client(office.bob, office.north)
    office.bob.memberships.all().delete()
    grant_role(office.bob, office.north, "auditor")
    assert client.get("sessions/").status_code == 200
    problem(client.post("sessions/", START), 403, "not_permitted")


def test_scopes_limit_what_a_token_may(office: Office) -> None:
    session = office.ask()
    read, run = agent_client(office.bob, office.north, "read"), agent_client(office.bob, office.north, "run")
    assert read.get("sessions/").status_code == 200
    assert "'run'" in problem(read.post("sessions/", START), 403, "not_permitted")["detail"]
    assert read.post(f"sessions/{session.session_id}/interrupt/").status_code == 403
    assert "'read'" in problem(run.get("sessions/"), 403, "not_permitted")["detail"]
    assert run.post("sessions/", START).status_code == 202
    fields = {"session_id": session.session_id, "tool": "refund", "fields": {"action_id": "a-1", "order": "1"}}
    assert "'propose'" in problem(run.post("proposals/", fields), 403, "not_permitted")["detail"]


def test_the_services_refuse_without_any_view(office: Office) -> None:  # D2
    session = office.ask()
    approval = office.approval(session)
    token, _ = token_of(office.bob, office.north)
    forged = Actor(f"token:{token.pk}", "forged", office.north.id, "web", on_behalf_of=f"user:{office.alice.pk}")
    stranger = Actor(f"user:{office.carol.pk}", "carol", office.north.id, "web", ("approver",))
    seen: dict[str, Any] = {"version": approval.version, "digest": approval.intent_digest.hex()}
    for actor in (forged, stranger):
        for deed in (
            lambda actor: start_session(office.north, actor, agent="desk", text="x"),
            lambda actor: continue_session(office.north, actor, session.session_id, text="x"),
            lambda actor: interrupt_session(office.north, actor, session.session_id),
            lambda actor: resume_session(office.north, actor, session.session_id),
            lambda actor: decide_approval(office.north, actor, approval.pk, verdict="approve", **seen),
        ):
            with pytest.raises(NotPermitted):
                deed(actor)
    assert Session.objects.count() == 1


def test_the_command_prints_the_token_once_and_alone(office: Office) -> None:
    out, err = StringIO(), StringIO()
    arguments = ["billing", "--tenant", "north", "--on-behalf-of", "bob", "--scope", "read", "--days", "7"]
    call_command("createtoken", *arguments, stdout=out, stderr=err)
    text = out.getvalue().strip()
    assert text not in err.getvalue()
    token = ApiToken.objects.get()
    assert (token.name, token.scopes, (token.expires_at - token.created_at).days) == ("billing", "read", 7)
    assert ApiClient(Client(), Authorization=f"Bearer {text}").get("sessions/").status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [["--on-behalf-of", "dave"], ["--on-behalf-of", "zoe"], ["--tenant", "west"], ["--days", "0"]],
    ids=" ".join,
)
def test_the_command_says_what_is_wrong(wrong: list[str], office: Office) -> None:
    arguments = ["billing", "--tenant", "north", "--on-behalf-of", "bob", *wrong]
    with pytest.raises(CommandError):
        call_command("createtoken", *arguments)
    assert not ApiToken.objects.exists()


def test_a_token_needs_scopes_that_exist(office: Office) -> None:
    for scopes in ((), ("decide",)):
        with pytest.raises(InvalidRequest):
            create_token(office.north, "billing", office.bob, scopes, 7)


def raw(client: ApiClient, body: bytes, content_type: str = "application/json", **extra: Any) -> Any:
    return client.client.post("/api/v1/sessions/", body, content_type, headers=client.headers, **extra)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b'"x"', b"\xff\xfe{", b'{"agent": NaN}', b'{"a": 1, "a": 2}', b"[" * 100_000,
        b'{"agent": ' + b'{"a":' * 65 + b"1" + b"}" * 65 + b"}", '{"agent": "x"}'.encode("utf-16"),
    ],
    ids=["empty", "cut", "list", "text", "bytes", "nan", "twice", "deep", "65", "utf16"],
)  # fmt: skip
def test_what_is_no_bounded_json_object_is_refused(body: bytes, agent: ApiClient) -> None:
    problem(raw(agent, body), 400, "invalid_request")


def test_a_large_body_is_refused_unread(agent: ApiClient) -> None:
    problem(raw(agent, b'{"agent": "' + b"x" * 1024 * 1024 + b'"}'), 413, "too_large")


def test_another_type_than_json_is_refused(agent: ApiClient) -> None:
    problem(raw(agent, b"agent=desk", "application/x-www-form-urlencoded"), 415, "unsupported_media_type")
    assert agent.client.get("/api/v1/sessions/", headers={**agent.headers, "Accept": "text/html"}).status_code == 200


def test_the_limits_of_a_caller_are_said_with_the_time_to_wait(office: Office, settings: Settings) -> None:
    settings.CAYU_API_READS, settings.CAYU_API_WRITES = 3, 2
    office.ask()
    first, second = agent_client(office.bob, office.north), agent_client(office.bob, office.north)
    assert [first.get("sessions/").status_code for _ in range(3)] == [200] * 3
    answer = first.get("sessions/")
    problem(answer, 429, "throttled")
    assert 1 <= int(answer["Retry-After"]) <= 61
    assert [first.post("sessions/", START).status_code for _ in range(3)] == [202, 202, 429]
    assert second.get("sessions/").status_code == 200
    assert person_client(office.bob).get("sessions/").status_code == 200


def test_other_methods_and_addresses_are_refused_as_problems(agent: ApiClient) -> None:
    problem(agent.client.put("/api/v1/sessions/", headers=agent.headers), 405, "method_not_allowed")
    problem(agent.client.options("/api/v1/sessions/", headers=agent.headers), 405, "method_not_allowed")
    problem(agent.get("sessions"), 404, "not_found")
    problem(agent.get("sessions/a%00b/"), 404, "not_found")
    problem(agent.get("no/such/place/"), 404, "not_found")


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_nothing_is_changed_or_deleted_in_place(method: str, office: Office, agent: ApiClient) -> None:  # D8
    session = office.ask()
    before = list(Event.objects.values_list("hash", flat=True))
    call = office.approval(session).call_id
    for path in (
        "sessions/", f"sessions/{session.session_id}/", f"sessions/{session.session_id}/events/",
        f"sessions/{session.session_id}/messages/", f"calls/{call}/", f"calls/{call}/effect/", "proposals/",
    ):  # fmt: skip
        answer = getattr(agent.client, method)(f"/api/v1/{path}", {}, "application/json", headers=agent.headers)
        problem(answer, 405, "method_not_allowed")
    assert list(Event.objects.values_list("hash", flat=True)) == before
