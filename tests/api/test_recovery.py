"""Recovery over HTTP: the plan that was read is the one that is executed, by people alone."""

from __future__ import annotations

from typing import Any

import pytest

from cayu_runtime.models import EffectRecord, Event, Session
from cayu_runtime.services.approval import decide_approval
from tests.api.clients import ApiClient, agent_client, problem
from tests.web.office import Office

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stuck(office: Office) -> Session:
    """Approved, and no worker has taken it."""
    session = office.ask()
    approval = office.approval(session)
    seen: dict[str, Any] = {"version": approval.version, "digest": bytes(approval.intent_digest).hex()}
    decide_approval(office.north, office.actor(office.alice, office.north), approval.pk, verdict="approve", **seen)
    return session


def read(client: ApiClient, session: Session) -> dict[str, Any]:
    plan: dict[str, Any] = client.get(f"sessions/{session.session_id}/recovery-plan/").json()
    return plan


def recover(client: ApiClient, session: Session, **body: Any) -> Any:
    return client.post(f"sessions/{session.session_id}/recover/", {"reason": "the machine burned", **body})


def test_the_plan_that_was_read_is_executed_and_its_repetition_is_the_record(alice: ApiClient, stuck: Session) -> None:
    plan = read(alice, stuck)
    assert (plan["status"], [repair["kind"] for repair in plan["repairs"]]) == ("automatic_repair", ["settle_prepared"])
    done = recover(alice, stuck, digest=plan["digest"])
    assert (done.status_code, done.json()["made"], done.json()["replay"]) == (200, {"settle_prepared": 1}, False)
    again = recover(alice, stuck, digest=plan["digest"])
    assert (again.status_code, again.json()["replay"], again.json()["seq"]) == (200, True, done.json()["seq"])
    assert EffectRecord.objects.get(session=stuck).state == "abandoned"
    assert Event.objects.filter(session=stuck, type="recovery.plan.executed").count() == 1


def test_a_plan_that_is_stale_or_has_nothing_to_repair_changes_nothing(
    office: Office, alice: ApiClient, stuck: Session
) -> None:
    digest = read(alice, stuck)["digest"]
    office.run(stuck)
    before = Session.objects.get(pk=stuck.pk).last_seq
    problem(recover(alice, stuck, digest=digest), 409, "stale_plan")
    problem(recover(alice, stuck, digest=read(alice, stuck)["digest"]), 409, "nothing_to_repair")
    assert Session.objects.get(pk=stuck.pk).last_seq == before


def test_what_is_missing_or_malformed_is_said(alice: ApiClient, stuck: Session) -> None:
    problem(recover(alice, stuck), 400, "invalid_request")
    problem(recover(alice, stuck, digest="zz" * 32), 400, "invalid_request")
    problem(recover(alice, stuck, digest=read(alice, stuck)["digest"], reason=" "), 400, "invalid_request")
    problem(alice.get("sessions/nobody/recovery-plan/"), 404, "not_found")


@pytest.mark.parametrize("whose", ["a viewer's", "an approver's"])
def test_a_token_reads_the_plan_and_neither_recovers_nor_gives_up(office: Office, stuck: Session, whose: str) -> None:
    agent = agent_client(office.bob if whose == "a viewer's" else office.alice, office.north)
    plan = read(agent, stuck)
    assert plan["status"] == "automatic_repair"
    problem(recover(agent, stuck, digest=plan["digest"]), 403, "not_permitted")
    problem(agent.post(f"sessions/{stuck.session_id}/abandon/", {"reason": "tired"}), 403, "not_permitted")


def test_a_session_is_given_up_with_a_reason(alice: ApiClient, stuck: Session) -> None:
    path = f"sessions/{stuck.session_id}/abandon/"
    problem(alice.post(path, {}), 400, "invalid_request")
    given_up = alice.post(path, {"reason": "nobody needs it any more"})
    assert (given_up.status_code, given_up.json()["state"]) == (200, "failed")
    problem(alice.post(path, {"reason": "again"}), 409, "conflict")
