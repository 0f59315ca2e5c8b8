"""With a verifier a receipt alone completes nothing (DESIGN §4; CASES C11)."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest
from django.db import connection

from cayu_runtime import Finding, Verdict, Verification
from cayu_runtime.core import adapters, execution
from cayu_runtime.core.receipted import record_verdict_unheld
from cayu_runtime.core.transitions import transition
from cayu_runtime.errors import Conflict
from cayu_runtime.models import EffectRecord, Event
from cayu_runtime.services.effect import verify_effect
from cayu_runtime.services.session import interrupt_session
from tests.db.test_recovery import unacknowledged_once
from tests.machine import Gate, Machine, agent_of
from tests.settling import Adapter, Downstream, Looks, look_up, unknown

pytestmark = pytest.mark.django_db(transaction=True)
NOT_PASSED = [Verdict.FAILED, Verdict.INCONCLUSIVE, RuntimeError("away")]


def answering(*verdicts: Any) -> Downstream:
    return Downstream(Adapter(Finding.CONFIRMED_DONE), losses=0, verifier=Looks(*verdicts))


def test_what_a_verifier_confirms_is_completed(machine: Machine) -> None:
    tool = answering(Verdict.PASSED)
    session = machine.start(agent_of(tool, policy=Gate()))
    effect = machine.effect(session)
    assert (effect.state, effect.verification, session.state, tool.count) == ("completed", "passed", "completed", 1)
    assert machine.events(session).count("tool.call.completed") == 1
    content = machine.transcript(session)[2]["parts"][0]["content"]
    assert (content["status"], content["content"]) == ("completed", "booked")


@pytest.mark.parametrize("verdict", NOT_PASSED, ids=["failed", "inconclusive", "raises"])
def test_what_it_does_not_confirm_goes_to_a_person(machine: Machine, verdict: Any) -> None:  # C11
    tool = answering(verdict)
    session = machine.start(agent_of(tool, policy=Gate()))
    effect = machine.effect(session)
    assert (effect.state, session.interruption, tool.count) == ("manual_review", "effect_outcome_unknown", 1)
    assert effect.receipt is not None
    assert effect.verification == ("failed" if verdict is Verdict.FAILED else "inconclusive")
    assert machine.calls(session)[0].state == "outcome_unknown"


@pytest.mark.parametrize("verdict", NOT_PASSED, ids=["failed", "inconclusive", "raises"])
def test_a_good_receipt_whose_check_fails_completes_nothing(machine: Machine, verdict: Any) -> None:  # C11
    tool = Downstream(Adapter(Finding.CONFIRMED_DONE), verifier=Looks(verdict))
    session, effect = unknown(machine, tool)
    look_up(machine, effect)
    effect.refresh_from_db()
    session.refresh_from_db()
    assert (effect.state, effect.receipt["source"]) == ("manual_review", "lookup")
    assert session.interruption == "effect_outcome_unknown"


def test_a_receipt_and_its_check_settle_an_unknown_effect(machine: Machine) -> None:
    tool = Downstream(Adapter(Finding.CONFIRMED_DONE), verifier=Looks(Verdict.PASSED))
    session, effect = unknown(machine, tool)
    look_up(machine, effect)
    machine.run(session)
    effect.refresh_from_db()
    assert (effect.state, effect.verification, session.state, tool.count) == ("completed", "passed", "completed", 1)


def held(machine: Machine, monkeypatch: pytest.MonkeyPatch, *verdicts: Any) -> tuple[Any, Downstream]:
    """A session whose worker died with the receipt held and nothing verified."""
    tool = answering(*verdicts)
    session = machine.start(agent_of(tool, policy=Gate()), run=False)
    with monkeypatch.context() as patch:
        patch.setattr(execution, "record_verdict", dies)
        with pytest.raises(Dies):
            machine.run(session)
    session.refresh_from_db()
    assert machine.effect(session).state == "receipted"
    return session, tool


class Dies(Exception):
    """The process ends here."""


def dies(*args: object) -> bool:
    raise Dies


def lose_lease(session: Any) -> None:
    with transition(session.pk) as change:
        change.set(lease_until=change.now)


def test_the_next_claimant_verifies_and_never_dispatches(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    session, tool = held(machine, monkeypatch, Verdict.PASSED, Verdict.PASSED)
    lose_lease(session)
    machine.run(session, "worker-2")
    assert (machine.effect(session).state, session.state, tool.count) == ("completed", "completed", 1)


def test_a_stop_between_receipt_and_check_leaves_it_to_a_person(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, tool = held(machine, monkeypatch, Verdict.PASSED)
    interrupt_session(machine.tenant, machine.bob, session.session_id)
    lose_lease(session)
    machine.run(session, "worker-2")
    effect = machine.effect(session)
    assert (effect.state, effect.verification, tool.count) == ("manual_review", "inconclusive", 1)
    assert session.interruption == "effect_outcome_unknown"
    told = Event.objects.filter(session=session, type="tool.effect.outcome_unknown").get().payload
    assert (told["effect"], told["state"]) == (str(effect.pk), "manual_review")


def test_who_asked_may_let_it_be_verified_after_a_crash(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Downstream(Adapter(Finding.CONFIRMED_DONE), verifier=Looks(Verdict.PASSED))
    session, effect = unknown(machine, tool)
    with monkeypatch.context() as patch:
        patch.setattr(adapters, "verify", dies)
        with pytest.raises(Dies):
            look_up(machine, effect)
    effect.refresh_from_db()
    assert effect.state == "receipted"
    verify_effect(machine.tenant, machine.bob, effect.pk)
    machine.run(session)
    assert (machine.effect(session).state, session.state) == ("completed", "completed")
    with monkeypatch.context() as patch:
        patch.setattr(adapters, "verify", dies)  # nobody is asked in vain
        with pytest.raises(Conflict, match="no verification is due"):
            verify_effect(machine.tenant, machine.bob, effect.pk)


def test_a_verdict_about_an_earlier_receipt_closes_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Downstream(Adapter(Finding.CONFIRMED_DONE), verifier=Looks(Verdict.PASSED))
    _, effect = unknown(machine, tool)
    with monkeypatch.context() as patch:
        patch.setattr(adapters, "verify", dies)
        with pytest.raises(Dies):
            look_up(machine, effect)
    effect.refresh_from_db()
    seen = copy(effect)
    EffectRecord.objects.filter(pk=effect.pk).update(receipt_digest=bytes(32))
    with pytest.raises(Conflict, match="Another receipt"):
        record_verdict_unheld(seen, Verification(Verdict.PASSED))
    assert machine.effect(effect.session).state == "receipted"


def test_who_asked_is_answered_also_when_a_worker_verified_first(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Downstream(Adapter(Finding.CONFIRMED_DONE), verifier=Looks(Verdict.PASSED, Verdict.PASSED))
    _, effect = unknown(machine, tool)
    verify = adapters.verify

    def overtaken(*asked: Any) -> Verification:
        said = verify(*asked)
        record_verdict_unheld(machine.effect(effect.session), said)
        return said

    with monkeypatch.context() as patch:
        patch.setattr(adapters, "verify", overtaken)
        said = look_up(machine, effect)
    assert (said.finding, said.effect.state) == ("confirmed_done", "completed")


def test_a_receipt_whose_settlement_was_not_acknowledged_is_verified(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:  # C16
    unacknowledged_once(monkeypatch, "settle")
    monkeypatch.setattr(connection, "close", lambda: None)
    tool = answering(Verdict.PASSED)
    session = machine.start(agent_of(tool, policy=Gate()))
    effect = machine.effect(session)
    assert (effect.state, effect.verification, session.state, tool.count) == ("completed", "passed", "completed", 1)
