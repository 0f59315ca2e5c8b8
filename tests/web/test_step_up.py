"""A fresh sign-in before what can't be undone is decided, where the tenant asks for one: at every door."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from cayu_review.selectors.identity import FRESH
from cayu_review.services.membership import grant_role
from cayu_runtime import Agreement, Stage
from cayu_runtime.contracts import Actor
from cayu_runtime.errors import NotPermitted
from cayu_runtime.models import Approval, AuditEntry, Decision, Tenant
from cayu_runtime.services.approval import Item, decide_approval, decide_many, revoke_approval
from cayu_runtime.services.tenant import set_step_up
from tests.lying_provider import LyingProvider
from tests.web.office import Office
from tests.web.test_agreement_page import ask
from tests.web.visitor import Visitor

LONG_AGO = 3600.0
WORDS = "checked with the customer"


@pytest.fixture
def strict(office: Office) -> Office:
    set_step_up(office.north, True)
    return office


def text(answer: Any) -> str:
    return str(answer.content.decode())


def approver_by_provider(office: Office, visitor: Visitor, *, signed_in_ago: float = LONG_AGO) -> Visitor:
    visitor.provider.auth_time = time.time() - signed_in_ago
    visitor.signs_in()
    grant_role(visitor.person, office.north, "approver")
    return visitor


def decide(client: Client, office: Office, approval: Approval, decision: str = "approve", **form: Any) -> Any:
    return client.post(f"/approvals/{approval.id}/decide/", office.form(approval, decision, reason=WORDS, **form))


def test_an_old_sign_in_leads_to_the_provider_and_back_to_the_draft_and_then_decides(
    strict: Office, visitor: Visitor
) -> None:
    approver_by_provider(strict, visitor)
    approval = strict.approval(strict.ask())
    address = f"/approvals/{approval.id}/"
    page = text(visitor.client.get(address))
    assert "you are asked to sign in again" in page
    assert "disabled" not in page.split('data-ask')[1].split("</div>")[0], "the buttons are there"

    sent = decide(visitor.client, strict, approval)
    assert sent.status_code == 403
    assert "Nothing was decided yet" in text(sent)
    assert not Decision.objects.exists()
    visitor.provider.auth_time = time.time()
    back = visitor.back(visitor.at_provider(sent.context["address"]))
    assert back["Location"] == address
    assert (visitor.provider.asked[-1]["max_age"], visitor.provider.asked[-1]["prompt"]) == ("0", "login")
    assert f"{WORDS}</textarea>" in text(visitor.client.get(address))

    assert decide(visitor.client, strict, approval).status_code == 302
    assert Decision.objects.get().reason == WORDS


def test_changed_arguments_come_back_too(strict: Office, visitor: Visitor) -> None:
    approver_by_provider(strict, visitor)
    approval = strict.approval(strict.ask(editable=True))
    address, changed = f"/approvals/{approval.id}/", '{"order": "1043"}'
    form = strict.form(approval, "change", reason=WORDS, arguments=changed)
    sent = visitor.client.post(f"{address}confirm/", form)
    assert (sent.status_code, "Nothing was decided yet" in text(sent)) == (403, True)
    visitor.provider.auth_time = time.time()
    visitor.back(visitor.at_provider(sent.context["address"]))
    page = visitor.client.get(address)
    assert page.context["arguments_text"] == changed
    assert page.context["draft"] == WORDS


def test_a_condition_comes_back_too_and_never_gets_lost_on_the_way(strict: Office, visitor: Visitor) -> None:
    approver_by_provider(strict, visitor)
    approval = ask(strict, Agreement((Stage(1),), conditions=True))
    sent = decide(visitor.client, strict, approval, condition="not before Monday")
    assert sent.status_code == 403
    visitor.provider.auth_time = time.time()
    visitor.back(visitor.at_provider(sent.context["address"]))
    page = text(visitor.client.get(f"/approvals/{approval.id}/"))
    assert "not before Monday</textarea>" in page
    assert f"{WORDS}</textarea>" in page


@pytest.mark.parametrize("auth_time", [LONG_AGO, FRESH.total_seconds() + 30, None])
def test_a_provider_that_did_not_ask_again_decides_nothing(
    strict: Office, visitor: Visitor, auth_time: float | None
) -> None:
    approver_by_provider(strict, visitor)
    approval = strict.approval(strict.ask())
    sent = decide(visitor.client, strict, approval)
    visitor.provider.auth_time = None if auth_time is None else time.time() - auth_time
    answer = visitor.back(visitor.at_provider(sent.context["address"]))
    assert answer.status_code == 403
    assert "did not ask you to prove again who you are" in text(answer)
    assert visitor.person is not None, "the old sign-in stays"
    assert WORDS in text(visitor.client.get(f"/approvals/{approval.id}/"))
    assert decide(visitor.client, strict, approval).status_code == 403
    assert not Decision.objects.exists()
    assert AuditEntry.objects.filter(type="sign_in.refused", payload__contains="not_fresh").exists()


def test_who_comes_back_as_somebody_else_decides_nothing_and_stays_who_they_were(
    strict: Office, visitor: Visitor
) -> None:
    approver_by_provider(strict, visitor)
    first = visitor.person
    sent = decide(visitor.client, strict, strict.approval(strict.ask()))
    visitor.provider.auth_time = time.time()
    visitor.provider.person = {"sub": "s-2"}
    answer = visitor.back(visitor.at_provider(sent.context["address"]))
    assert (answer.status_code, "somebody else" in text(answer)) == (403, True)
    assert visitor.person == first
    assert not Decision.objects.exists()


def test_a_sign_in_that_does_not_say_when_is_old(strict: Office, provider: LyingProvider, visitor: Visitor) -> None:
    provider.auth_time = None
    visitor.signs_in()
    grant_role(visitor.person, strict.north, "approver")
    assert decide(visitor.client, strict, strict.approval(strict.ask())).status_code == 403


def test_a_fresh_one_decides_at_once(strict: Office, visitor: Visitor) -> None:
    approver_by_provider(strict, visitor, signed_in_ago=60)
    assert decide(visitor.client, strict, strict.approval(strict.ask())).status_code == 302


def signed_in_by_password(office: Office, name: str, *, ago: timedelta = timedelta()) -> Client:
    client = Client()
    client.post("/accounts/login/", {"username": name, "password": f"{name}'s word"})
    session = client.session
    session["cayu_authenticated_at"] = (timezone.now() - ago).isoformat()
    session.save()
    return client


def test_who_came_by_a_password_is_asked_for_it_again(strict: Office) -> None:
    client = signed_in_by_password(strict, "alice", ago=FRESH + timedelta(seconds=5))
    approval = strict.approval(strict.ask())
    asked = decide(client, strict, approval)
    assert asked.status_code == 403
    assert "asks for your password again" in text(asked)
    key = client.session.session_key
    back = asked.context["next"]

    wrong = client.post("/accounts/again/", {"next": back, "password": "wrong"})
    assert (wrong.status_code, "not your password" in text(wrong)) == (403, True)
    assert decide(client, strict, approval).status_code == 403
    right = client.post("/accounts/again/", {"next": back, "password": "alice's word"})
    assert right["Location"] == back == f"/approvals/{approval.id}/"
    assert client.session.session_key != key
    assert WORDS in text(client.get(back))
    assert decide(client, strict, approval).status_code == 302
    entries = AuditEntry.objects.filter(type__startswith="sign_in.").order_by("seq")
    assert [entry.payload["how"] for entry in entries] == ["password", "password again", "password again"]


def test_the_password_of_another_person_is_not_taken_and_many_wrong_ones_are_throttled(strict: Office) -> None:
    client = signed_in_by_password(strict, "alice", ago=timedelta(hours=1))
    for _ in range(9):
        answer = client.post("/accounts/again/", {"username": "erin", "password": "erin's word"})
        assert answer.status_code == 403
    assert client.post("/accounts/again/", {"password": "wrong"}).status_code == 429
    assert client.post("/accounts/again/", {"password": "alice's word"}).status_code == 429
    assert Client().post("/accounts/again/", {"password": "x"}).status_code == 403


def test_after_the_password_the_way_leads_on_within_this_site_alone(strict: Office) -> None:
    client = signed_in_by_password(strict, "alice")
    form = {"password": "alice's word", "next": "https://evil.example/"}
    assert client.post("/accounts/again/", form)["Location"] == "/"


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_right_sign_in_is_fresh_for_five_minutes(strict: Office, decision: str) -> None:
    fresh = signed_in_by_password(strict, "alice", ago=FRESH - timedelta(seconds=20))
    stale = signed_in_by_password(strict, "alice", ago=FRESH + timedelta(seconds=1))
    approval = strict.approval(strict.ask())
    assert decide(stale, strict, approval, decision).status_code == 403
    assert decide(fresh, strict, approval, decision).status_code == 302


def test_what_can_be_repeated_needs_none_nor_does_another_tenant(strict: Office) -> None:
    stale = signed_in_by_password(strict, "alice", ago=timedelta(hours=1))
    label = strict.approval(strict.ask(("label", {"order": "1"})))
    assert decide(stale, strict, label).status_code == 302
    carol = signed_in_by_password(strict, "carol", ago=timedelta(hours=1))
    erin = strict.person("frank", strict.south, "viewer")
    elsewhere = strict.approval(strict.ask(by=erin, tenant=strict.south))
    assert decide(carol, strict, elsewhere).status_code == 302


def test_the_api_says_what_is_missing_and_leads_nowhere(strict: Office) -> None:
    stale = signed_in_by_password(strict, "alice", ago=timedelta(hours=1))
    approval = strict.approval(strict.ask())
    body = {"decision": "approve", "version": approval.version, "digest": approval.intent_digest.hex()}
    address = f"/api/v1/approvals/{approval.id}/decide/"
    answer = stale.post(address, json.dumps(body), content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "step_up_required")
    fresh = signed_in_by_password(strict, "alice")
    assert fresh.post(address, json.dumps(body), content_type="application/json").status_code == 200


def test_the_services_ask_whatever_the_door(strict: Office) -> None:
    approval = strict.approval(strict.ask())
    seen: dict[str, Any] = {"version": approval.version, "digest": approval.intent_digest.hex()}
    alice = f"user:{strict.alice.pk}"
    for moment in (None, timezone.now() - FRESH - timedelta(seconds=1)):
        actor = Actor(alice, "alice", strict.north.id, "web", authenticated_at=moment)
        with pytest.raises(NotPermitted) as refused:
            decide_approval(strict.north, actor, approval.pk, verdict="approve", **seen)
        assert refused.value.code == "step_up_required"
        (answered,) = decide_many(strict.north, actor, [Item(approval.pk, **seen)], verdict="approve")
        assert (answered.code, answered.done) == ("step_up_required", False)
    actor = Actor(alice, "alice", strict.north.id, "web", authenticated_at=timezone.now())
    decide_approval(strict.north, actor, approval.pk, verdict="approve", **seen)
    stale = Actor(alice, "alice", strict.north.id, "web")
    revoke_approval(strict.north, stale, approval.pk, **seen, reason="taking back sends nothing")


def test_the_bulk_page_names_it(strict: Office) -> None:
    stale = signed_in_by_password(strict, "alice", ago=timedelta(hours=1))
    refund = strict.approval(strict.ask())
    labels = [strict.approval(strict.ask(("label", {"order": str(number)}))) for number in range(2)]
    items = [f"{one.pk}~{one.version}~{one.intent_digest.hex()}" for one in (refund, *labels)]
    answer = stale.post("/approvals/together/", {"item": items, "decision": "approve"})
    assert answer.status_code == 200
    assert "Needs a fresh sign-in" in text(answer)
    refund.refresh_from_db()
    assert refund.state == "pending"
    assert Decision.objects.count() == 2


def test_it_is_switched_on_and_off_at_a_shell_and_stands_on_the_chain(office: Office) -> None:
    said = StringIO()
    for wanted in ("on", "on", "off"):
        call_command("stepup", "north", wanted, stdout=said)
    states = ["is now on", "was already on", "is now off"]
    assert [state in line for state, line in zip(states, said.getvalue().splitlines(), strict=True)] == [True] * 3
    changes = AuditEntry.objects.filter(tenant=office.north, type="tenant.step_up_changed").order_by("seq")
    assert [entry.payload["step_up"] for entry in changes] == [True, False]
    with pytest.raises(CommandError, match="no tenant 'nowhere'"):
        call_command("stepup", "nowhere", "on")
    call_command("createtenant", "west", "--step-up", stdout=said)
    assert {tenant.slug: tenant.step_up for tenant in Tenant.objects.all()} == {
        "north": False, "south": False, "west": True,
    }  # fmt: skip


def test_only_who_manages_people_may_switch_it(office: Office) -> None:
    for person, may in ((office.person("boss", office.north, "administrator"), True), (office.alice, False)):
        actor = office.actor(person, office.north)
        if may:
            assert set_step_up(office.north, True, actor)
        else:
            with pytest.raises(NotPermitted):
                set_step_up(office.north, False, actor)
    office.north.refresh_from_db()
    assert office.north.step_up
