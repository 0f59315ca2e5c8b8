"""A proposal of which nobody knows whether it was recorded: it is looked up, and the agent goes on."""

from __future__ import annotations

from typing import Any

import pytest

from cayu_review import tools
from cayu_runtime.errors import EffectConflict
from cayu_runtime.models import EffectRecord, Proposal, Session
from tests.machine import Machine
from tests.reviewing import Operator, act, propose
from tests.settling import look_up

pytestmark = pytest.mark.django_db(transaction=True)  # an adapter runs in its own thread


def uncertain(machine: Machine, monkeypatch: pytest.MonkeyPatch, *, recorded: bool) -> tuple[Session, EffectRecord]:
    """Both runs of `record_proposal` broke, after it was on record or before."""
    operator = Operator([propose()], [act()])
    real = operator.agent.resources["record_proposal"]

    def breaks(*args: Any, **kwargs: Any) -> Any:
        if recorded:
            real(*args, **kwargs)
        raise ConnectionError("lost")

    with monkeypatch.context() as patch:
        patch.setitem(operator.agent.resources, "record_proposal", breaks)
        session = machine.start(operator.agent)
    effect = EffectRecord.objects.get(session=session)
    assert (session.interruption, effect.state) == ("effect_outcome_unknown", "outcome_unknown")
    return session, effect


def test_one_that_is_on_record_is_found_and_the_agent_asks_for_its_action(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, effect = uncertain(machine, monkeypatch, recorded=True)
    assert look_up(machine, effect).finding == "confirmed_done"
    machine.run(session)
    assert session.interruption == "approval_required"
    assert [call.tool for call in machine.calls(session)] == ["record_proposal", "apply_change"]


def test_one_that_is_not_there_will_not_come_and_may_be_recorded_once_more(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, effect = uncertain(machine, monkeypatch, recorded=False)
    assert look_up(machine, effect).finding == "absent"
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert Proposal.objects.get(session=session).action_id == "change-0001"
    assert session.interruption == "approval_required"


def test_other_fields_under_its_name_are_a_conflict(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    _, effect = uncertain(machine, monkeypatch, recorded=True)
    other = Proposal(action_id="change-0001", fields={"action_id": "change-0001", "target": "other"})
    monkeypatch.setattr(tools, "find_proposal", lambda *_: other)
    with pytest.raises(EffectConflict, match="other fields"):
        look_up(machine, effect)
