"""Several people agree, on the pages, in the API and in sets: who is asked, who has agreed, tiers, conditions."""

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from cayu_review.services.membership import Limits, grant_role
from cayu_runtime import Agent, Agreement, Call, Reply, Stage, Turn, registry
from cayu_runtime.models import Approval, Decision, Event
from cayu_runtime.policies import RequireApproval
from cayu_runtime.services.session import start_session
from tests.web.office import Office

WANTED = Agreement((Stage(2), Stage(1, tier=3)), escalate_after=3600, conditions=True)


def ask(office: Office, wanted: Agreement = WANTED, tool: str = "refund", **more: Any) -> Approval:
    def desk(turn: Turn) -> Reply:
        return Reply("done") if turn.outcomes else Reply(calls=(Call(tool, {"order": "1042"}),))

    policy = RequireApproval(("*",), agreement=wanted, **more)
    name = f"board-{Approval.objects.count()}"
    registry.register_for_test(Agent(name=name, model=desk, tools=(office.refund, office.label), policy=policy))
    session = start_session(office.north, office.actor(office.bob, office.north), agent=name, text="refund order 1042")
    return office.approval(office.run(session))


@pytest.fixture
def chief(office: Office) -> User:
    user = office.person("chief", office.north)
    grant_role(user, office.north, "approver", limits=Limits(tier=3))
    return user


def text(answer: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def page(client: Client, approval: Approval) -> Any:
    return client.get(f"/approvals/{approval.pk}/")


def send(client: Client, office: Office, approval: Approval, decision: str = "approve", **changed: Any) -> Any:
    approval.refresh_from_db()
    return client.post(f"/approvals/{approval.pk}/decide/", office.form(approval, decision, **changed), follow=True)


def test_the_page_says_who_is_asked_who_agreed_and_on_what_condition(office: Office, chief: User) -> None:
    approval = ask(office)
    alice, erin, head = (office.client(user) for user in (office.alice, office.erin, chief))
    first = text(page(alice, approval))
    assert "2 different people 2 more" in first
    assert "1 person of tier 3 or above after that" in first
    assert "2 to agree" in text(alice.get("/"))
    answer = send(alice, office, approval, condition="Only before noon.")
    assert "Your agreement is recorded. Others must agree too." in text(answer)
    assert "You have agreed to this. Others must agree too before it is sent." in text(page(alice, approval))
    seen = text(page(erin, approval))
    assert "2 different people 1 more" in seen
    assert "on the condition: “Only before noon.”" in seen
    send(erin, office, approval)
    assert "1 to agree, tier 3" in text(erin.get("/"))
    send(head, office, approval)
    assert Approval.objects.get(pk=approval.pk).state == "approved"
    assert "On the condition: “Only before noon.”" in text(page(alice, approval))
    office.run(approval.session)
    assert office.refund.count == 1


def test_a_tier_that_is_too_low_is_refused_at_every_door(office: Office, chief: User) -> None:
    approval = ask(office, Agreement((Stage(1, tier=2),)), "label")
    erin = office.client(office.erin)
    said = "This needs an approver of tier 2 or above; you are one of tier 1 here."
    assert said in text(page(erin, approval))
    answer = send(erin, office, approval)
    assert (answer.status_code, said in text(answer)) == (403, True)
    form = {"decision": "approve", "version": 1, "digest": approval.intent_digest.hex()}
    address = f"/api/v1/approvals/{approval.pk}/decide/"
    by_api = erin.post(address, json.dumps(form), content_type="application/json")
    assert (by_api.status_code, by_api.json()["code"]) == (403, "not_permitted")
    assert said in by_api.json()["detail"]
    item = f"{approval.pk}~1~{approval.intent_digest.hex()}"
    together = erin.post("/approvals/together/", {"decision": "approve", "item": item, "reason": ""})
    assert Approval.objects.get(pk=approval.pk).state == "pending", together.status_code
    assert not Decision.objects.exists()
    send(office.client(chief), office, approval)
    assert Approval.objects.get(pk=approval.pk).state == "approved"


def test_the_api_shows_who_must_agree_and_takes_a_condition(office: Office) -> None:
    approval = ask(office)
    alice = office.client(office.alice)
    (row,) = alice.get("/api/v1/pending-actions/").json()["results"]
    agreement = row["agreement"]
    assert agreement.pop("escalates_at") is not None
    assert agreement == {"stages": [[2, 1], [1, 3]], "stage": 0, "needed": 2, "tier": 1, "conditions": True}
    form = {"decision": "approve", "version": row["version"], "digest": row["digest"], "condition": "By noon."}
    answer = alice.post(f"/api/v1/approvals/{approval.pk}/decide/", json.dumps(form), content_type="application/json")
    assert (answer.status_code, answer.json()["state"]) == (200, "pending")
    assert answer.json()["decision"]["condition"] == "By noon."
    long = {**form, "condition": "x" * 501}
    answer = alice.post(f"/api/v1/approvals/{approval.pk}/decide/", json.dumps(long), content_type="application/json")
    assert answer.status_code == 400


def test_under_four_eyes_the_editor_cannot_approve_what_they_wrote(office: Office) -> None:
    approval = ask(office, Agreement(), editable=True)
    alice, erin = office.client(office.alice), office.client(office.erin)
    assert "Change it, for somebody else to approve" in text(page(alice, approval))
    written = json.dumps({"order": "1043"})
    answer = send(alice, office, approval, "change", arguments=written)
    assert "Changed. Somebody else must approve it as it is now." in text(answer)
    assert "You changed these arguments yourself" in text(page(alice, approval))
    assert send(alice, office, approval).status_code == 403
    seen = text(page(erin, approval))
    assert "Changed since it was asked for" in seen
    send(erin, office, approval)
    office.run(approval.session)
    approval.refresh_from_db()
    assert (approval.state, approval.version, approval.call.arguments) == ("consumed", 2, {"order": "1043"})
    assert office.refund.count == 1
    event = Event.objects.get(type="tool.call.edited").payload
    assert (event["before"], event["after"]) == ({"order": "1042"}, {"order": "1043"})


def test_an_edit_above_the_editors_tier_needs_the_higher_tier(office: Office, chief: User) -> None:  # A15
    from cayu_runtime import PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, ToolPolicy

    class ByOrder(ToolPolicy):
        identity = PolicyIdentity("by order", "1", {})

        def authorize(self, request: PolicyRequest) -> PolicyResult:
            tier = 3 if request.arguments["order"] == "big" else 1
            agreement = Agreement((Stage(1, tier),))
            return PolicyResult(PolicyDecision.REQUIRE_APPROVAL, agreement=agreement, editable=True, four_eyes=False)

    def desk(turn: Turn) -> Reply:
        return Reply("done") if turn.outcomes else Reply(calls=(Call("refund", {"order": "small"}),))

    registry.register_for_test(Agent(name="tiers", model=desk, tools=(office.refund,), policy=ByOrder()))
    actor = office.actor(office.bob, office.north)
    approval = office.approval(office.run(start_session(office.north, actor, agent="tiers", text="refund")))
    written = json.dumps({"order": "big"})
    answer = send(office.client(office.alice), office, approval, "change", arguments=written)
    assert (answer.status_code, "tier 3 or above" in text(answer)) == (403, True)
    assert Approval.objects.get(pk=approval.pk).version == 1
    send(office.client(chief), office, approval, "change", arguments=written)
    assert Approval.objects.get(pk=approval.pk).state == "approved"


def test_a_limited_editor_does_not_move_the_target_out_of_reach(office: Office) -> None:
    near = office.person("near", office.north)
    grant_role(near, office.north, "approver", limits=Limits(targets=("1042",)))
    for approval in (
        office.approval(office.ask(four_eyes=False, editable=True)),
        ask(office, Agreement(), editable=True, four_eyes=False),
    ):
        answer = send(office.client(near), office, approval, "change", arguments=json.dumps({"order": "9999"}))
        assert (answer.status_code, Approval.objects.get(pk=approval.pk).state) == (403, "pending")
        office.run(approval.session)
    assert office.refund.count == 0


def test_no_editor_agrees_also_not_the_one_before_the_last(office: Office) -> None:
    approval = ask(office, Agreement(), editable=True)
    alice, erin = office.client(office.alice), office.client(office.erin)
    send(alice, office, approval, "change", arguments=json.dumps({"order": "1043"}))
    send(erin, office, approval, "change", arguments=json.dumps({"order": "1044"}))
    assert send(alice, office, approval).status_code == 403
    assert Approval.objects.get(pk=approval.pk).state == "pending"


def test_an_agreement_that_is_no_ones_last_is_not_taken_back_but_denied(office: Office) -> None:
    approval = ask(office, Agreement((Stage(2),), conditions=True))
    alice = office.client(office.alice)
    send(alice, office, approval, condition="By noon.")
    address = f"/api/v1/approvals/{approval.pk}/"
    seen = {"version": 1, "digest": approval.intent_digest.hex()}
    other = {"decision": "approve", "condition": "Never on Sunday.", **seen}
    answer = alice.post(f"{address}decide/", json.dumps(other), content_type="application/json")
    assert (answer.status_code, "stays on record" in answer.json()["detail"]) == (409, True)
    taken = alice.post(f"{address}revoke/", json.dumps({**seen, "reason": "no"}), content_type="application/json")
    assert (taken.status_code, "Not all who must" in taken.json()["detail"]) == (409, True)


def test_after_agreeing_the_next_that_waits_for_this_person_opens(office: Office) -> None:
    first, second = ask(office), ask(office)
    alice = office.client(office.alice)
    answer = alice.post(f"/approvals/{first.pk}/decide/", office.form(first, "approve"))
    assert answer.headers["Location"] == f"/approvals/{second.pk}/"
    answer = alice.post(f"/approvals/{second.pk}/decide/", office.form(second, "approve"))
    assert answer.headers["Location"] == "/"
