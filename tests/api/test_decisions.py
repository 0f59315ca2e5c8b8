"""What waits, and deciding it: exactly what was seen, by a person."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from cayu_runtime.models import Approval, Event, Session
from tests.api.clients import ApiClient, agent_client, person_client, problem
from tests.web.office import Office


def decision(approval: Approval, verdict: str = "approve", **changed: object) -> dict[str, object]:
    seen = {"version": approval.version, "digest": approval.intent_digest.hex(), "reason": "read it"}
    return {"decision": verdict, **seen, **changed}


def test_an_agent_client_is_told_what_waits_without_any_value(office: Office, agent: ApiClient) -> None:  # A1
    session = office.ask(("refund", {"order": "secret-order", "amount": "12.34"}))
    page = agent.get("pending-actions/")
    assert page.json()["issues"] == []
    (action,) = page.json()["results"]
    assert action["kind"] == "pending_approval"
    assert (action["session_id"], action["tool"]) == (session.session_id, "refund")
    assert b"secret-order" not in page.content
    assert not {"arguments", "target", "digest", "version"} & set(action)
    call = agent.get(f"calls/{action['call']}/")
    assert b"secret-order" not in call.content
    assert call.json()["state"] == "awaiting_approval"


def test_a_person_decides_by_what_the_api_shows(office: Office, alice: ApiClient, agent: ApiClient) -> None:  # A2, A5
    session = office.ask(("refund", {"order": "1042"}))
    (action,) = alice.get("pending-actions/", {"session_id": session.session_id}).json()["results"]
    assert (action["arguments"], action["target"]) == ({"order": "1042"}, "1042")
    body = {"decision": "approve", "version": action["version"], "digest": action["digest"], "reason": "seen"}
    decided = alice.post(f"approvals/{action['id']}/decide/", body)
    assert decided.status_code == 200
    said = decided.json()
    assert (said["state"], said["replay"], said["decision"]["source"]) == ("approved", False, "web")
    assert said["decision"]["actor"] == f"user:{office.alice.pk}"
    office.run(session)
    assert office.refund.count == 1
    assert agent.get(f"sessions/{session.session_id}/").json()["state"] == "completed"
    again = alice.post(f"approvals/{action['id']}/decide/", body)
    assert again.status_code == 200
    assert (again.json()["state"], again.json()["replay"]) == ("consumed", True)
    assert again.json()["decision"] == said["decision"]
    assert office.run(session).state == "completed"
    assert office.refund.count == 1
    assert agent.get("pending-actions/").json()["results"] == []
    effect = agent.get(f"calls/{action['call']}/effect/").json()
    assert (effect["state"], effect["dispatches"]) == ("completed", 1)
    assert effect["attempts"][0]["kind"] == "dispatch"


def test_a_decision_names_what_it_is_about(office: Office, alice: ApiClient) -> None:  # A7
    session = office.ask(*(("refund", {"order": order}) for order in ("1", "2", "3")))
    first, second, _ = Approval.objects.filter(session=session).order_by("call__position")
    path = f"approvals/{first.pk}/decide/"
    for missing in ("version", "digest", "decision"):
        body = {name: value for name, value in decision(first).items() if name != missing}
        said = problem(alice.post(path, body), 400, "invalid_request")
        assert [wrong["field"] for wrong in said["errors"]] == [missing]
    problem(alice.post(path, decision(first, digest="zz" * 32)), 400, "invalid_request")
    problem(alice.post(path, decision(second)), 409, "digest_mismatch")
    problem(alice.post(path, decision(first, version=7)), 409, "stale_version")
    assert not Event.objects.filter(type="tool.call.approved").exists()
    assert Approval.objects.filter(session=session, state="pending").count() == 3


def test_another_answer_than_the_recorded_one_names_the_winner(office: Office, alice: ApiClient) -> None:  # A6
    approval = office.approval(office.ask())
    path = f"approvals/{approval.pk}/decide/"
    assert alice.post(path, decision(approval, "deny")).status_code == 200
    said = problem(person_client(office.erin).post(path, decision(approval)), 409, "already_decided")
    assert said["winner"]
    problem(alice.post(path, decision(approval)), 409, "already_decided")


def test_no_token_decides_whoever_it_acts_for(office: Office) -> None:
    approval = office.approval(office.ask())
    for person in (office.alice, office.erin):
        client = agent_client(person, office.north)
        problem(client.post(f"approvals/{approval.pk}/decide/", decision(approval)), 403, "not_permitted")
        revoke = {name: value for name, value in decision(approval).items() if name != "decision"}
        problem(client.post(f"approvals/{approval.pk}/revoke/", revoke), 403, "not_permitted")
    approval.refresh_from_db()
    assert approval.state == "pending"


def test_who_asked_cannot_decide_neither_who_asked_through_a_token(office: Office) -> None:  # A22
    office.ask()
    started = agent_client(office.alice, office.north).post("sessions/", {"agent": "desk", "text": "refund"})
    session = office.run(Session.objects.get(session_id=started.json()["session_id"]))
    approval = office.approval(session)
    problem(
        person_client(office.alice).post(f"approvals/{approval.pk}/decide/", decision(approval)), 403, "own_request"
    )
    assert person_client(office.erin).post(f"approvals/{approval.pk}/decide/", decision(approval)).status_code == 200


def test_an_approval_is_taken_back_with_a_reason(office: Office, alice: ApiClient) -> None:
    session = office.ask()
    approval = office.approval(session)
    alice.post(f"approvals/{approval.pk}/decide/", decision(approval))
    seen = {"version": approval.version, "digest": approval.intent_digest.hex()}
    problem(alice.post(f"approvals/{approval.pk}/revoke/", seen), 400, "invalid_request")
    revoked = alice.post(f"approvals/{approval.pk}/revoke/", {**seen, "reason": "wrong order"})
    assert (revoked.status_code, revoked.json()["state"]) == (200, "revoked")
    office.run(session)
    assert office.refund.count == 0


def test_edited_arguments_need_the_policy_that_allows_them(office: Office, alice: ApiClient) -> None:
    approval = office.approval(office.ask())
    path = f"approvals/{approval.pk}/decide/"
    problem(alice.post(path, decision(approval, arguments=[1])), 400, "invalid_request")
    assert alice.post(path, decision(approval, arguments={"order": "7"})).status_code in (400, 403)
    problem(alice.post(path, decision(approval, "deny", arguments={"order": "7"})), 400, "invalid_request")


def test_csrf_is_asked_of_people_and_not_of_tokens(office: Office) -> None:  # D3
    approval = office.approval(office.ask())
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(office.alice)
    path = f"approvals/{approval.pk}/decide/"
    problem(ApiClient(strict).post(path, decision(approval)), 403, "csrf_failed")
    strict.get("/start/")
    with_token = ApiClient(strict, **{"X-CSRFToken": strict.cookies["csrftoken"].value})
    assert with_token.post(path, decision(approval)).status_code == 200
    assert agent_client(office.bob, office.north).post("sessions/", {"agent": "desk", "text": "x"}).status_code == 202


def test_reading_changes_nothing_however_often(office: Office, alice: ApiClient) -> None:  # D3
    approval = office.approval(office.ask())
    paths = [f"approvals/{approval.pk}/decide/", f"calls/{approval.call_id}/", "pending-actions/", "sessions/"]
    before = Event.objects.count()
    for path in paths * 3:
        assert alice.get(path).status_code == (405 if "decide" in path else 200)
        alice.client.head(f"/api/v1/{path}")
    approval.refresh_from_db()
    assert (approval.state, Event.objects.count()) == ("pending", before)


def test_what_waits_and_cannot_be_read_is_an_issue_and_not_a_broken_list(office: Office, alice: ApiClient) -> None:
    broken = office.approval(office.ask())
    whole = office.approval(office.ask())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE cayu_runtime_toolcall SET arguments = '{\"a\": ' WHERE operation_id = %s",
                       [broken.call.operation_id])  # fmt: skip
    for client in (alice, agent_client(office.bob, office.north)):
        page = client.get("pending-actions/").json()
        assert [action["id"] for action in page["results"]] == [str(whole.id)]
        assert [issue["id"] for issue in page["issues"]] == [str(broken.id)]


def test_what_waits_is_paged_soonest_first(office: Office, alice: ApiClient) -> None:
    ids = [str(office.approval(office.ask()).id) for _ in range(3)]
    first = alice.get("pending-actions/", {"limit": 2}).json()
    second = alice.get("pending-actions/", {"limit": 2, "cursor": first["next"]}).json()
    assert [action["id"] for action in first["results"] + second["results"]] == ids
    assert second["next"] is None


@pytest.mark.parametrize("who", ["alice", "agent"])
def test_uncertain_effects_wait_too(who: str, office: Office, request: pytest.FixtureRequest) -> None:
    effect = office.unknown()
    client: ApiClient = request.getfixturevalue(who)
    (action,) = client.get("pending-actions/", {"kind": "pending_tool_effect"}).json()["results"]
    assert (action["id"], action["kind"]) == (str(effect.id), "pending_tool_effect")
    assert ("target" in action) == (who == "alice")
