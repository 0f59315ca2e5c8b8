"""An uncertain effect is inspected and settled over HTTP: by people, by evidence, exactly as it was seen (C2–C8)."""

from __future__ import annotations

from typing import Any

import pytest

from cayu_runtime import Finding, Observation
from cayu_runtime.core import adapters
from cayu_runtime.models import Attempt, EffectRecord, Event, ToolCall
from tests.api.clients import ApiClient, problem
from tests.settling import Adapter
from tests.web.office import Office

pytestmark = pytest.mark.django_db(transaction=True)  # an adapter runs in its own thread
BARRED = Observation(Finding.ABSENT, "Not there, and never will be.", barred=True)


@pytest.fixture
def adapter(office: Office) -> Adapter:
    made = Adapter(Finding.CONFIRMED_DONE)
    office.refund.reconciler = made
    return made


@pytest.fixture
def effect(office: Office, adapter: Adapter) -> EffectRecord:
    return office.unknown()


def inspect(client: ApiClient, effect: EffectRecord) -> dict[str, Any]:
    shown: dict[str, Any] = client.get(f"calls/{effect.call_id}/effect/").json()
    return shown


def request_of(shown: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """A lookup that repeats what was read."""
    seen = {"revision": shown["revision"], "dispatch_id": shown["dispatch_id"]}
    return {"kind": "lookup", **seen, "reason": "customer called", **changed}


def reconcile(client: ApiClient, effect: EffectRecord, body: dict[str, Any]) -> Any:
    return client.post(f"calls/{effect.call_id}/effect/reconcile/", body)


def test_inspection_tells_the_exact_identity_and_the_ways(alice: ApiClient, effect: EffectRecord) -> None:
    shown = inspect(alice, effect)
    assert (shown["state"], shown["uncertain"], shown["revision"]) == ("outcome_unknown", True, effect.revision)
    assert (shown["dispatch_id"], shown["dispatch_fence"]) == (str(effect.dispatch_id), effect.dispatch_fence)
    assert (shown["operation_id"], shown["tool_version"]) == (effect.operation_id, "1")
    assert shown["ways"] == {"lookup": True, "receipt": True}
    (attempt,) = shown["attempts"]
    assert (attempt["kind"], attempt["dispatch_id"]) == ("dispatch", str(effect.dispatch_id))
    assert attempt["evidence"]["classification"] == "raised"
    assert effect.idempotency_key not in str(shown)


def test_a_lookup_settles_it_and_the_session_goes_on(
    office: Office, alice: ApiClient, effect: EffectRecord, adapter: Adapter
) -> None:
    body = request_of(inspect(alice, effect))
    done = reconcile(alice, effect, body)
    assert done.status_code == 200
    said = done.json()
    assert (said["finding"], said["replay"], said["effect"]["state"]) == ("confirmed_done", False, "completed")
    assert said["effect"]["receipt"]["source"] == "lookup"
    again = reconcile(alice, effect, body)
    assert (again.status_code, again.json()["replay"]) == (200, True)
    assert again.json() == {**said, "replay": True}
    assert len(adapter.asked) == 1
    assert office.run(effect.session).state == "completed"
    assert office.refund.count == 1
    closed = inspect(alice, effect)
    assert (closed["state"], closed["uncertain"], closed["ways"]) == (
        "completed", False, {"lookup": False, "receipt": False},
    )  # fmt: skip
    problem(reconcile(alice, effect, request_of(closed)), 409, "conflict")


def test_a_receipt_settles_it_if_the_adapter_validates_it(
    office: Office, alice: ApiClient, effect: EffectRecord
) -> None:
    shown = inspect(alice, effect)
    receipt = {"operation": effect.operation_id, "tool_version": "1"}
    done = reconcile(alice, effect, request_of(shown, kind="receipt", receipt=receipt))
    assert (done.status_code, done.json()["effect"]["receipt"]["source"]) == (200, "supplied")
    assert office.run(effect.session).state == "completed"


@pytest.mark.parametrize("receipt", [{"operation": "another"}, {"text": "receipt_id: 77"}, {}], ids=str)
def test_a_receipt_for_something_else_is_kept_and_settles_nothing(  # C4, C6
    alice: ApiClient, effect: EffectRecord, adapter: Adapter, receipt: dict[str, Any]
) -> None:
    body = request_of(inspect(alice, effect), kind="receipt", receipt=receipt)
    for _ in range(2):
        problem(reconcile(alice, effect, body), 409, "effect_conflict")
    assert len(adapter.receipts) == 1
    shown = inspect(alice, effect)
    assert (shown["state"], shown["attempts"][-1]["evidence"]["outcome"]) == ("outcome_unknown", "conflict")


def test_an_absence_with_a_bar_asks_for_a_fresh_approval(
    office: Office, alice: ApiClient, effect: EffectRecord, adapter: Adapter
) -> None:  # C9
    adapter.answers = [BARRED]
    said = reconcile(alice, effect, request_of(inspect(alice, effect))).json()
    assert (said["finding"], said["effect"]["state"]) == ("absent", "safe_to_retry")
    (waiting,) = alice.get("pending-actions/").json()["results"]
    approve = {"decision": "approve", "version": waiting["version"], "digest": waiting["digest"], "reason": "again"}
    assert alice.post(f"approvals/{waiting['id']}/decide/", approve).status_code == 200
    assert office.run(effect.session).state == "completed"
    after = inspect(alice, effect)
    assert (after["operation_id"], after["dispatches"]) == (effect.operation_id, 2)
    assert after["dispatch_id"] != str(effect.dispatch_id)


@pytest.mark.parametrize(
    "changed",
    [{"revision": 1}, {"dispatch_id": "01900000-0000-7000-8000-000000000000"}, {"dispatch_id": None}],
    ids=["revision", "dispatch", "none"],
)
def test_a_request_about_an_effect_as_it_was_changes_nothing(  # C3
    alice: ApiClient, effect: EffectRecord, adapter: Adapter, changed: dict[str, Any]
) -> None:
    shown, events = inspect(alice, effect), Event.objects.count()
    problem(reconcile(alice, effect, request_of(shown, **changed)), 409, "stale_revision")
    assert (inspect(alice, effect), Event.objects.count(), adapter.asked) == (shown, events, [])


def test_a_request_that_broke_off_is_unfinished_and_superseded_by_the_next(  # C7
    alice: ApiClient, effect: EffectRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = request_of(inspect(alice, effect))
    with monkeypatch.context() as patch:
        patch.setattr(adapters, "look_up", dies)
        with pytest.raises(Dies):
            reconcile(alice, effect, body)
    problem(reconcile(alice, effect, body), 409, "unfinished")
    assert reconcile(alice, effect, request_of(inspect(alice, effect))).status_code == 200
    problem(reconcile(alice, effect, body), 409, "conflict")
    lookups = [attempt["state"] for attempt in inspect(alice, effect)["attempts"] if attempt["kind"] == "lookup"]
    assert lookups == ["superseded", "selected"]


class Dies(Exception):
    """The process ends here."""


def dies(*args: object) -> Observation:
    raise Dies


def test_an_agent_client_inspects_and_never_settles(agent: ApiClient, effect: EffectRecord, adapter: Adapter) -> None:
    shown = inspect(agent, effect)
    assert shown["uncertain"]
    assert not {"reason", "evidence"} & set(shown["attempts"][0])
    problem(reconcile(agent, effect, request_of(shown)), 403, "not_permitted")
    assert (adapter.asked, Attempt.objects.filter(effect=effect, kind="lookup").exists()) == ([], False)


WRONG: dict[str, dict[str, Any]] = {
    "no revision": {"revision": None},
    "revision as text": {"revision": "3"},
    "kind": {"kind": "outcome"},
    "a person's word": {"outcome": "completed"},
    "who": {"actor": "user:1"},
    "dispatch as number": {"dispatch_id": 7},
    "dispatch without hyphens": {"dispatch_id": "0" * 32},
    "receipt is missing": {"kind": "receipt"},
    "receipt with a lookup": {"receipt": {"a": 1}},
    "receipt is text": {"kind": "receipt", "receipt": "receipt_id"},
    "receipt is too large": {"kind": "receipt", "receipt": {"a": "x" * 98_304}},
    "no reason": {"reason": "\u200b "},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_cannot_be_used_is_refused_before_anything_is_recorded(
    alice: ApiClient, effect: EffectRecord, wrong: dict[str, Any]
) -> None:
    shown = inspect(alice, effect)
    problem(reconcile(alice, effect, request_of(shown, **wrong)), 400, "invalid_request")
    assert inspect(alice, effect) == shown


def test_a_missing_dispatch_is_not_taken_for_none(alice: ApiClient, effect: EffectRecord) -> None:
    body = request_of(inspect(alice, effect))
    del body["dispatch_id"]
    said = problem(reconcile(alice, effect, body), 400, "invalid_request")
    assert [wrong["field"] for wrong in said["errors"]] == ["dispatch_id"]


def test_a_call_without_an_effect_has_none_to_settle(office: Office, alice: ApiClient) -> None:
    call = ToolCall.objects.get(session=office.ask(("look", {"order": "1"}), gated=()))
    path = f"calls/{call.pk}/effect/"
    problem(alice.get(path), 404, "not_found")
    problem(alice.post(f"{path}reconcile/", {}), 404, "not_found")
