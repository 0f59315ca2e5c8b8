"""An uncertain effect is settled by evidence, and by nothing else (DESIGN §7; CASES C2–C11)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from cayu_runtime import Finding, Observation, ToolEffect, ToolResult
from cayu_runtime.core import adapters
from cayu_runtime.errors import Conflict, EffectConflict, InvalidRequest, NotFound, StaleRevision, Unfinished
from cayu_runtime.models import Approval, Attempt, EffectRecord, Event, Session, Worker
from cayu_runtime.services.effect import Seen, look_up_effect, supply_receipt
from tests import rows
from tests.machine import Gate, Machine, agent_of
from tests.settling import DONE, Adapter, Downstream, bring, long_after, look_up, seen, unknown

pytestmark = pytest.mark.django_db(transaction=True)
BARRED = Observation(Finding.ABSENT, "Not there, and never will be.", barred=True)


def kinds(session: Session) -> list[str]:
    return [kind for kind in Machine().events(session) if kind.startswith("tool.effect")]


# ---- each answer of an adapter has one stated outcome (C10) ----


@pytest.mark.parametrize("effect_class", [ToolEffect.EXTERNAL, ToolEffect.IDEMPOTENT])
@pytest.mark.parametrize(
    "answer, becomes",
    [
        (Finding.CONFIRMED_DONE, "completed"),
        (Finding.CONFIRMED_REFUSED, "rejected"),
        (BARRED, "safe_to_retry"),
        (Finding.ABSENT, "outcome_unknown"),  # its worker is not known to be gone
        (Finding.NOT_FOUND, "outcome_unknown"),
        (Finding.UNSUPPORTED, "outcome_unknown"),
        (Finding.UNAVAILABLE, "manual_review"),
        (RuntimeError("broken"), "manual_review"),
        (lambda inquiry: "booked", "manual_review"),
    ],
    ids=["done", "refused", "barred", "absent", "not found", "unsupported", "unavailable", "raises", "nonsense"],
)
def test_what_an_answer_makes_of_an_unknown_effect(
    machine: Machine, answer: Any, becomes: str, effect_class: ToolEffect
) -> None:
    losses = 2 if effect_class is ToolEffect.IDEMPOTENT else 1  # its one replay is lost as well
    tool = Downstream(Adapter(answer), losses=losses, effect=effect_class)
    session, effect = unknown(machine, tool)
    done = look_up(machine, effect)
    effect.refresh_from_db()
    assert (effect.state, done.effect.state, tool.count) == (becomes, becomes, losses)
    machine.run(session)
    ended = {"completed": "completed", "rejected": "failed", "safe_to_retry": "awaiting_approval"}
    assert machine.calls(session)[0].state == ended.get(becomes, "outcome_unknown")
    assert (session.state == "completed") == (becomes in ("completed", "rejected"))


@pytest.mark.parametrize(
    "answer, becomes",
    [
        (Finding.CONFIRMED_DONE, "completed"),
        (Finding.CONFIRMED_REFUSED, "rejected"),
        (BARRED, "safe_to_retry"),
        (Finding.NOT_FOUND, "manual_review"),
        (Finding.UNAVAILABLE, "manual_review"),
    ],
    ids=["done", "refused", "barred", "not found", "unavailable"],
)
def test_only_something_definite_ends_a_manual_review(machine: Machine, answer: Any, becomes: str) -> None:
    _, effect = unknown(machine, Downstream(Adapter(Finding.UNAVAILABLE, answer)))
    look_up(machine, effect)
    look_up(machine, effect)
    effect.refresh_from_db()
    assert effect.state == becomes


def test_a_confirmed_effect_has_receipt_and_result_in_one_transaction_and_the_run_goes_on(machine: Machine) -> None:
    session, effect = unknown(machine, Downstream(Adapter(Finding.CONFIRMED_DONE)))  # C5
    look_up(machine, effect)
    machine.run(session)
    effect.refresh_from_db()
    assert effect.receipt["source"] == "lookup"
    assert kinds(session)[-2:] == ["tool.effect.reconciliation.started", "tool.effect.receipt.validated"]
    events = Event.objects.filter(session=session, type__in=("tool.effect.receipt.validated", "tool.call.completed"))
    validated, completed = events.order_by("seq")
    assert validated.at == completed.at
    assert validated.payload["receipt_evidence"]["digest"] == completed.payload["receipt"]
    assert machine.events(session).count("tool.call.completed") == 1
    assert session.state == "completed"


# ---- what is asked again, and by whom ----


def test_the_same_request_again_asks_nobody(machine: Machine) -> None:  # C2
    adapter = Adapter(Finding.NOT_FOUND)
    _, effect = unknown(machine, Downstream(adapter))
    as_seen = seen(effect)
    first = look_up(machine, effect, as_seen=as_seen)
    again = look_up(machine, effect, as_seen=as_seen)
    assert (first.replay, again.replay, again.finding) == (False, True, "not_found")
    assert again.attempt == first.attempt
    assert len(adapter.asked) == 1


def test_another_persons_request_is_another_request(machine: Machine) -> None:
    adapter = Adapter(Finding.NOT_FOUND, Finding.NOT_FOUND)
    _, effect = unknown(machine, Downstream(adapter))
    look_up(machine, effect)
    look_up(machine, effect, by=machine.carol)
    assert len(adapter.asked) == 2


@pytest.mark.parametrize("stale", [{"revision": 1}, {"dispatch_id": rows.new_id()}], ids=["revision", "dispatch"])
def test_a_request_about_an_effect_as_it_was_changes_nothing(machine: Machine, stale: dict[str, Any]) -> None:  # C3
    adapter = Adapter()
    session, effect = unknown(machine, Downstream(adapter))
    before, events = effect.revision, len(machine.events(session))
    as_seen = Seen(**{"revision": effect.revision, "dispatch_id": effect.dispatch_id, **stale})
    with pytest.raises(StaleRevision):
        look_up(machine, effect, as_seen=as_seen)
    effect.refresh_from_db()
    assert (effect.revision, len(machine.events(session)), adapter.asked) == (before, events, [])


def test_a_conflict_is_kept_said_and_not_asked_again(machine: Machine) -> None:  # C4
    adapter = Adapter(Observation(Finding.CONFLICT, "Another booking stands there.", evidence={"other": 1}))
    session, effect = unknown(machine, Downstream(adapter))
    as_seen = seen(effect)
    for _ in range(2):
        with pytest.raises(EffectConflict, match="Another booking"):
            look_up(machine, effect, as_seen=as_seen)
    effect.refresh_from_db()
    assert (effect.state, len(adapter.asked)) == ("outcome_unknown", 1)
    attempt = Attempt.objects.get(effect=effect, kind="lookup")
    assert (attempt.state, attempt.evidence["evidence"]) == ("selected", {"other": 1})
    assert kinds(session)[-1] == "tool.effect.reconciliation.conflict"


def test_a_broken_off_request_stays_on_record_and_a_newer_one_supersedes_it(machine: Machine) -> None:  # C7
    adapter = Adapter()
    session, effect = unknown(machine, Downstream(adapter))
    as_seen = seen(effect)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapters, "look_up", dies)
        with pytest.raises(Dies):
            look_up(machine, effect, as_seen=as_seen)
    effect.refresh_from_db()
    assert effect.state == "outcome_unknown"
    with pytest.raises(Unfinished):
        look_up(machine, effect, as_seen=as_seen)
    adapter.answers = [Finding.CONFIRMED_DONE]
    look_up(machine, effect)
    first, second = Attempt.objects.filter(effect=effect, kind="lookup").order_by("admitted_at")
    assert first.request_digest is not None
    assert second.request_digest is not None
    assert (first.state, second.state) == ("superseded", "selected")
    conflict = Event.objects.get(session=session, type="tool.effect.reconciliation.conflict").payload
    assert conflict["kind"] == "reconciliation_superseded"
    assert (conflict["loser"], conflict["winner"]) == (first.request_digest.hex(), second.request_digest.hex())
    with pytest.raises(Conflict, match="newer"):
        look_up(machine, effect, as_seen=as_seen)


class Dies(Exception):
    """The process ends here."""


def dies(*args: object) -> Observation:
    raise Dies


def test_an_answer_to_a_superseded_request_is_dropped(machine: Machine) -> None:
    def meanwhile(inquiry: Any) -> Observation:
        look_up(machine, effect, by=machine.carol)
        return Observation(Finding.CONFIRMED_REFUSED)

    adapter = Adapter(meanwhile, Finding.NOT_FOUND)
    _, effect = unknown(machine, Downstream(adapter))
    with pytest.raises(Conflict, match="newer"):
        look_up(machine, effect)
    effect.refresh_from_db()
    assert effect.state == "outcome_unknown"


def test_what_is_settled_is_not_settled_again(machine: Machine) -> None:
    adapter = Adapter(Finding.CONFIRMED_DONE, Finding.CONFIRMED_REFUSED)
    _, effect = unknown(machine, Downstream(adapter))
    look_up(machine, effect)
    with pytest.raises(Conflict, match="nothing uncertain"):
        look_up(machine, effect)
    assert len(adapter.asked) == 1


def test_a_request_needs_a_reason_a_tenant_and_a_role(machine: Machine, settings: Any) -> None:
    _, effect = unknown(machine, Downstream(Adapter()))
    with pytest.raises(InvalidRequest, match="Say why"):
        look_up_effect(machine.tenant, machine.bob, effect.pk, seen(effect), reason="\u200b ")
    with pytest.raises(NotFound):
        look_up_effect(Machine().tenant, machine.bob, effect.pk, seen(effect), reason="x")


# ---- receipts (C6, C8) ----


def receipt_of(effect: EffectRecord, **changes: Any) -> dict[str, Any]:
    return {"operation": effect.operation_id, "tool_version": effect.call.tool_version, "id": "r-1", **changes}


def test_a_receipt_that_the_adapter_validates_settles_it(machine: Machine) -> None:
    session, effect = unknown(machine, Downstream(Adapter()))
    bring(machine, effect, receipt_of(effect))
    machine.run(session)
    effect.refresh_from_db()
    assert (effect.state, effect.receipt["source"], session.state) == ("completed", "supplied", "completed")


@pytest.mark.parametrize("changes", [{"operation": "op_other"}, {"tool_version": "0"}], ids=["operation", "version"])
def test_a_receipt_for_something_else_is_refused(machine: Machine, changes: dict[str, Any]) -> None:  # C6
    _, effect = unknown(machine, Downstream(Adapter()))
    with pytest.raises(EffectConflict):
        bring(machine, effect, receipt_of(effect, **changes))
    effect.refresh_from_db()
    assert effect.state == "outcome_unknown"


@pytest.mark.parametrize(
    "receipt, says",
    [({"x": "y" * 98_304}, "at most 98304"), ({"x": float("nan")}, "can't be used"), ({"x": 2**60}, "as a string")],
    ids=["too large", "no number", "too many digits"],
)
def test_a_receipt_that_is_no_bounded_json_is_refused_before_anything_is_recorded(
    machine: Machine, receipt: dict[str, Any], says: str
) -> None:
    _, effect = unknown(machine, Downstream(Adapter()))
    with pytest.raises(InvalidRequest, match=says):
        bring(machine, effect, receipt)
    assert not Attempt.objects.filter(effect=effect, kind="receipt").exists()


def test_without_an_adapter_nobodys_word_settles_anything(machine: Machine) -> None:  # C8
    _, effect = unknown(machine, Downstream(None))
    done = bring(machine, effect, {"text": "receipt_id: 77, I swear"})
    effect.refresh_from_db()
    assert (done.finding, effect.state) == ("unsupported", "outcome_unknown")


def test_text_that_looks_like_a_receipt_is_none(machine: Machine) -> None:
    tool = Downstream(Adapter())
    tool.does = lambda ctx, args: "receipt_id: 77"
    _, effect = unknown(machine, tool)
    assert "77" not in str(effect.failure_evidence)
    assert (effect.state, effect.receipt) == ("outcome_unknown", None)


# ---- once more, after a proof that it did not happen (C9) ----


def retry(machine: Machine, session: Session) -> Approval:
    (approval,) = machine.approvals(session)
    machine.decide(approval, "approve")
    machine.run(session)
    return approval


def test_a_barred_absence_leads_to_a_fresh_approval_and_one_more_dispatch(machine: Machine) -> None:  # C9
    tool = Downstream(Adapter(BARRED))
    session, effect = unknown(machine, tool)
    look_up(machine, effect)
    session.refresh_from_db()
    assert (session.state, session.interruption, tool.count) == ("interrupted", "approval_required", 1)
    approval = retry(machine, session)
    assert (session.state, tool.count) == ("completed", 2)
    first, second = tool.seen
    assert first.operation_id == second.operation_id
    assert first.dispatch_id != second.dispatch_id
    assert first.idempotency_key != second.idempotency_key  # the first one is barred for ever
    assert not second.replayed
    effect.refresh_from_db()
    assert (effect.state, effect.dispatches, approval.version) == ("completed", 2, 1)


def test_a_retry_that_the_downstream_refuses_is_refused(machine: Machine) -> None:
    """The first run is proved absent, so the second's "I did not do it" is definite."""
    tool = Downstream(Adapter(BARRED))
    session, effect = unknown(machine, tool)
    tool.does = lambda ctx, args: ToolResult("closed", is_error=True)
    look_up(machine, effect)
    retry(machine, session)
    effect.refresh_from_db()
    assert (effect.state, session.state) == ("rejected", "completed")


def test_who_denies_the_retry_ends_it(machine: Machine) -> None:
    tool = Downstream(Adapter(BARRED))
    session, effect = unknown(machine, tool)
    look_up(machine, effect)
    machine.decide(machine.approvals(session)[0], "deny")
    machine.run(session)
    effect.refresh_from_db()
    assert (effect.state, session.state, tool.count) == ("rejected", "completed", 1)


def test_an_approved_action_gets_its_next_version(machine: Machine) -> None:
    tool = Downstream(Adapter(BARRED))
    session = machine.start(agent_of(tool, policy=Gate(move_money="require_approval")))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    look_up(machine, machine.effect(session))
    (again,) = machine.approvals(session)
    assert again.version == 2
    retry(machine, session)
    assert (session.state, tool.count) == ("completed", 2)


def ended(effect: EffectRecord, host: str = "host", pid: int = 77) -> None:
    """The dispatch came from a worker that is known to have ended."""
    EffectRecord.objects.filter(pk=effect.pk).update(dispatched_by=f"{host}:{pid}")
    rows.worker(host=host, pid=pid, started_at=rows.NOW, ended_at=rows.LATER)


def test_an_absence_counts_after_the_deadline_of_a_worker_that_is_gone(machine: Machine) -> None:
    _, effect = unknown(machine, Downstream(Adapter(Finding.ABSENT, Finding.ABSENT)))
    ended(effect)
    assert look_up(machine, effect).finding == "not_found"  # too early
    with long_after():
        assert look_up(machine, effect).finding == "absent"
    effect.refresh_from_db()
    assert effect.state == "safe_to_retry"


def test_an_absence_proves_nothing_while_its_worker_may_live(machine: Machine) -> None:  # C15
    _, effect = unknown(machine, Downstream(Adapter(Finding.ABSENT, Finding.ABSENT)))
    ended(effect)
    Worker.objects.update(ended_at=None)
    with long_after():
        assert look_up(machine, effect).finding == "not_found"
        Worker.objects.update(ended_at=rows.LATER)
        assert look_up(machine, effect).finding == "absent"


def test_an_absence_seen_while_its_worker_lived_proves_nothing(machine: Machine) -> None:  # C15
    """It may have acted between the look and its own end."""

    def ends_meanwhile(_: Any) -> Observation:
        Worker.objects.update(ended_at=rows.LATER)
        return Observation(Finding.ABSENT)

    _, effect = unknown(machine, Downstream(Adapter(ends_meanwhile, Finding.ABSENT)))
    ended(effect)
    Worker.objects.update(ended_at=None)
    with long_after():
        assert look_up(machine, effect).finding == "not_found"
        assert look_up(machine, effect).finding == "absent"


def test_an_absence_seen_before_the_last_arrival_proves_nothing(machine: Machine) -> None:
    """What counts is when the adapter looked, not when its answer is written."""

    with ExitStack() as later:

        def answers_late(_: Any) -> Observation:
            later.enter_context(long_after())
            return Observation(Finding.ABSENT)

        _, effect = unknown(machine, Downstream(Adapter(answers_late, Finding.ABSENT)))
        ended(effect)
        assert look_up(machine, effect).finding == "not_found"
        assert look_up(machine, effect).finding == "absent"


def test_the_key_leaks_nowhere(machine: Machine) -> None:
    def tells(inquiry: Any) -> Observation:
        raise RuntimeError(f"GET /bookings?key={inquiry.idempotency_key} failed")

    session, effect = unknown(machine, Downstream(Adapter(tells)))
    look_up(machine, effect)
    told = str(list(Event.objects.filter(session=session).values_list("payload", flat=True)))
    told += str(list(Attempt.objects.filter(effect=effect).values_list("evidence", flat=True)))
    assert "RuntimeError" in told
    assert effect.idempotency_key not in told


def test_what_the_lookup_brings_is_what_the_model_is_told(machine: Machine) -> None:
    session, effect = unknown(machine, Downstream(Adapter(Finding.CONFIRMED_DONE)))
    look_up(machine, effect)
    machine.run(session)
    content = machine.transcript(session)[2]["parts"][0]["content"]
    assert (content["status"], content["content"], content["structured"]) == ("completed", DONE.content, {"to": "x"})


def test_supplying_a_receipt_needs_the_same(machine: Machine) -> None:
    _, effect = unknown(machine, Downstream(Adapter()))
    with pytest.raises(StaleRevision):
        supply_receipt(machine.tenant, machine.bob, effect.pk, Seen(1, None), {"a": 1}, reason="x")
