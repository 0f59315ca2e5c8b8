"""What happens to people and to the deployment stands on the audit chain of the tenant, without any secret."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from cayu_review.services.token import create_token, revoke_token
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import Conflict
from cayu_runtime.models import AuditEntry, Event, Tenant
from cayu_runtime.services.pause import pause_dispatch, resume_dispatch
from tests.web.office import Office

PASSWORD = "a long way to go"
SHELL = Actor("shell:ops", "ops", None, "shell")


def chain(tenant: Tenant) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(tenant=tenant).exclude(type__startswith="role.").order_by("seq"))


def test_sign_ins_refusals_and_sign_outs(office: Office) -> None:
    office.bob.set_password(PASSWORD)
    office.bob.save()
    client = Client()
    client.post("/accounts/login/", {"username": "bob", "password": "wrong"})
    client.post("/accounts/login/", {"username": "nobody", "password": "wrong"})
    client.post("/accounts/login/", {"username": "bob", "password": PASSWORD})
    client.post("/accounts/logout/")
    client.post("/accounts/logout/")
    entries = chain(office.north)
    assert [entry.type for entry in entries] == ["sign_in.refused", "sign_in.succeeded", "sign_in.ended"]
    bob = f"user:{office.bob.pk}"
    assert [entry.actor for entry in entries] == ["anonymous", bob, bob]
    assert entries[0].payload["person"] == bob
    assert "wrong" not in json.dumps([entry.payload for entry in entries[1:]])
    assert PASSWORD not in json.dumps([entry.payload for entry in entries])
    call_command("verify_audit", "--tenant", office.north.slug, stdout=StringIO())


def test_tokens_without_their_text(office: Office) -> None:
    token, text = create_token(office.north, "robot", office.bob, ["read"], 1)
    revoke_token(token.pk)
    revoke_token(token.pk)
    entries = chain(office.north)
    assert [entry.type for entry in entries] == ["token.created", "token.revoked"]
    assert text not in json.dumps([entry.payload for entry in entries])
    assert entries[0].payload["on_behalf_of"] == f"user:{office.bob.pk}"


def test_an_export_has_every_record_of_the_tenant_and_stands_on_its_chain(office: Office) -> None:
    session = office.ask()
    office.ask(by=office.carol, tenant=office.south)
    office.person("ada", office.north, "auditor")
    out = StringIO()
    call_command("export", "north", "--as", "ada", "--reason", "the yearly audit", stdout=out)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert {line["of"] for line in lines} == {"north", session.session_id}
    events = [line["type"] for line in lines if line["kind"] == "event"]
    assert events == list(Event.objects.filter(session=session).order_by("seq").values_list("type", flat=True))
    last = [line for line in lines if line["kind"] == "audit"][-1]
    assert (last["type"], last["payload"]["reason"]) == ("records.exported", "the yearly audit")
    assert chain(office.south) == []
    for who, said in (("bob", "role auditor"), ("nobody", "no person")):
        with pytest.raises(CommandError, match=said):
            call_command("export", "north", "--as", who, "--reason", "why", stdout=StringIO())
    with pytest.raises(CommandError, match="no tenant"):
        call_command("export", "nowhere", "--as", "ada", "--reason", "why", stdout=StringIO())
    assert len(chain(office.north)) == 1


def test_the_kill_switch_of_one_tenant_and_of_all(office: Office) -> None:
    pause_dispatch(SHELL, reason="an incident", tenant=office.north, tool="refund")
    with pytest.raises(Conflict):
        pause_dispatch(SHELL, reason="again", tenant=office.north, tool="refund")
    resume_dispatch(SHELL, tenant=office.north, tool="refund")
    pause_dispatch(SHELL, reason="everything")
    resume_dispatch(SHELL)
    said = [(entry.type, entry.payload.get("tool"), entry.payload.get("everywhere")) for entry in chain(office.north)]
    assert said == [
        ("dispatch.paused", "refund", None),
        ("dispatch.resumed", "refund", None),
        ("dispatch.paused", "", True),
        ("dispatch.resumed", "", True),
    ]
    assert [entry.type for entry in chain(office.south)] == ["dispatch.paused", "dispatch.resumed"]
