"""The page of standing grants: who reads it, who makes one, who takes one back; each call that passes says why."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from cayu_review.services.membership import Limits, grant_role
from cayu_runtime.models import Approval, AuditEntry, Grant
from tests import rows
from tests.web.office import Office

ORDER = json.dumps({"order": {"one_of": ["1042", "1043"]}})


@pytest.fixture(autouse=True)
def known(office: Office) -> None:
    """An agent that has the tools; what it asks here waits and is of no further use."""
    office.ask(("look", {"order": "1"}))


def form(**changed: str) -> dict[str, str]:
    given = {"tool": "refund", "agent": "", "rules": ORDER, "hours": "24", "uses": "2", "reason": "Small ones."}
    return {**given, **changed}


def text(response: Any) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def test_an_approver_makes_one_and_a_call_in_its_range_waits_for_nobody(office: Office) -> None:
    erin = office.client(office.erin)
    assert erin.post("/grants/", form()).headers["Location"] == "/grants/"
    grant = Grant.objects.get()
    assert (grant.made_by, grant.max_uses, grant.tool_version) == (f"user:{office.erin.pk}", 2, "1")
    session = office.ask(("refund", {"order": "1042"}))
    assert (session.state, office.refund.count) == ("completed", 1)
    page = text(erin.get("/grants/"))
    assert "Used 1 of 2 times, last dispatched" in page
    assert "order: one of &quot;1042&quot;, &quot;1043&quot;" in page
    told = text(erin.get(f"/sessions/{session.session_id}/"))
    assert "refund passed under a standing grant of erin" in told
    approval = Approval.objects.get(session=session)
    assert "Small ones." in text(erin.get(f"/approvals/{approval.pk}/"))
    assert office.ask(("refund", {"order": "7"})).interruption == "approval_required"


def test_it_is_taken_back_with_a_reason_by_an_approver_or_an_administrator_and_by_nobody_else(office: Office) -> None:
    ada = office.person("ada", office.north, "administrator")
    for user in (office.alice, ada):
        grant = rows.grant(tenant=office.north)
        address = f"/grants/{grant.pk}/revoke/"
        for other in (office.bob, office.carol):
            assert office.client(other).post(address, {"reason": "no"}).status_code in (403, 404)
        client = office.client(user)
        assert client.get(address).headers["Location"] == "/grants/"
        assert client.post(address, {"reason": " "}).status_code == 400
        grant.refresh_from_db()
        assert grant.revoked_at is None
        assert client.post(address, {"reason": "the week is over"}).status_code == 302
        assert client.post(address, {"reason": "again"}).status_code == 409
        grant.refresh_from_db()
        assert (grant.revoked_by, grant.revoke_reason) == (f"user:{user.pk}", "the week is over")
        assert "taken back already" in text(client.post(address, {"reason": "again"}))
    assert AuditEntry.objects.filter(tenant=office.north, type="grant.revoked").count() == 2


def test_who_may_not_make_one_reads_them_without_a_form(office: Office) -> None:
    rows.grant(tenant=office.north)
    ada = office.person("ada", office.north, "administrator")
    for user in (office.bob, ada):
        client = office.client(user)
        assert "Let these calls pass" not in text(client.get("/grants/"))
        assert client.post("/grants/", form()).status_code == 403
    assert "Take back the grant" in text(office.client(ada).get("/grants/"))
    assert "Take back the grant" not in text(office.client(office.bob).get("/grants/"))
    assert "refund" not in text(office.client(office.carol).get("/grants/")).split("Let calls pass")[0]
    assert Client().get("/grants/").status_code == 302
    assert Grant.objects.count() == 1


@pytest.mark.parametrize(
    "limits, status",
    [(Limits(tools=("label",)), 403), (Limits(targets=("1042",)), 403), (Limits(tools=("ref*",)), 302)],
    ids=["another tool", "some targets", "this tool"],
)
def test_a_limited_approver_makes_none_beyond_their_limits(office: Office, limits: Limits, status: int) -> None:
    grant_role(office.erin, office.north, "approver", limits=limits)
    assert office.client(office.erin).post("/grants/", form()).status_code == status
    assert Grant.objects.exists() is (status == 302)


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"rules": "{"}, "can&#x27;t be read"),
        ({"rules": '{"order": {"between": 5}}'}, "The rule for &#x27;order&#x27; can&#x27;t be read"),
        ({"tool": "gone"}, "There is no tool"),
        ({"agent": "gone"}, "There is no agent"),
        ({"hours": "721"}, "30 days"),
        ({"hours": "soon"}, "whole number"),
        ({"uses": "0"}, "from 1 to"),
        ({"reason": ""}, "Say why"),
        ({"tool": "x\0"}, "No tool has such a name"),
    ],
)
def test_what_makes_no_sense_comes_back_with_a_sentence_and_what_was_written(
    office: Office, changed: dict[str, str], said: str
) -> None:
    answer = office.client(office.erin).post("/grants/", form(**changed))
    assert answer.status_code == 400
    page = text(answer)
    assert said in page
    assert changed.get("reason", "Small ones.") in page
    assert not Grant.objects.exists()


def test_where_the_tenant_wants_a_fresh_sign_in_an_old_one_makes_none(office: Office) -> None:
    office.north.step_up = True
    office.north.save()
    assert office.client(office.erin).post("/grants/", form()).status_code == 403
    assert not Grant.objects.exists()


def test_a_form_without_its_token_makes_nothing(office: Office) -> None:
    assert office.client(office.erin, enforce_csrf_checks=True).post("/grants/", form()).status_code == 403
    assert not Grant.objects.exists()


def test_the_menu_leads_there_for_those_who_act_on_it(office: Office) -> None:
    assert 'href="/grants/"' in text(office.client(office.erin).get("/"))
    assert 'href="/grants/"' not in text(office.client(office.bob).get("/"))
