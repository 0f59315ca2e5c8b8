"""Two sessions that claim one action_id at the same moment, and a proposal that ends while its action is recorded."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cayu_runtime import ToolContext
from cayu_runtime.core import canonical, reviewed
from cayu_runtime.core.judgement import ProposedCall, judge
from cayu_runtime.core.rounds import record_step
from cayu_runtime.errors import ProposalConflict
from cayu_runtime.models import Event, Proposal, Session, ToolCall
from cayu_runtime.services.proposal import Recorded, record_proposal
from tests import rows
from tests.machine import Machine
from tests.race.rivals import race, together
from tests.reviewing import FIELDS, Operator

pytestmark = pytest.mark.postgres


def recording(session: Session) -> ToolContext:
    """The context of a recording tool that runs in this session now."""
    call = rows.call("dispatched", session=session, tool="record_proposal", effect_class="idempotent")
    effect = rows.effect("intent_recorded", call=call)
    return ToolContext(session.session_id, tenant=str(session.tenant_id), dispatch_id=str(effect.dispatch_id))


def record(ctx: ToolContext, **changed: Any) -> Recorded:
    return record_proposal(ctx, tool="apply_change", fields={**FIELDS, **changed})


def test_of_two_sessions_with_one_action_id_the_second_waits_and_gets_a_conflict(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:  # C18
    first, second = (recording(rows.session(tenant=machine.tenant)) for _ in range(2))
    won, lost = race(monkeypatch, lambda: record(first), lambda: record(second))
    assert isinstance(won, Recorded)
    assert isinstance(lost, ProposalConflict)
    assert "Nothing was recorded" in lost.message
    assert Proposal.objects.get().session.session_id == first.session_id
    assert Event.objects.filter(type="proposal.recorded").count() == 1


def test_of_ten_sessions_with_one_action_id_one_records_it(machine: Machine) -> None:
    contexts = [recording(rows.session(tenant=machine.tenant)) for _ in range(10)]
    outcomes = together(10, lambda n: record(contexts[n]))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ProposalConflict"] * 9 + ["Recorded"]


@pytest.mark.parametrize("changed", [{}, {"target": "other"}])
def test_one_session_records_it_once_whoever_comes_second(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str]
) -> None:
    ctx = recording(rows.session(tenant=machine.tenant))
    won, second = race(monkeypatch, lambda: record(ctx), lambda: record(ctx, **changed))
    assert isinstance(won, Recorded)
    if changed:
        assert isinstance(second, ProposalConflict)
    else:
        assert (second.proposal.pk, second.replay) == (won.proposal.pk, True)
    assert Proposal.objects.get().fields == FIELDS


def test_a_proposal_that_ends_while_its_action_is_recorded_authorises_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = Operator()
    session = machine.start(operator.agent, run=False)
    lease = machine.claim(session)
    Session.objects.filter(pk=session.pk).update(rounds=1)
    digest = canonical.digest(FIELDS)
    proposal = rows.proposal(
        session=session, action_id="change-0001", tool="apply_change", fields=FIELDS, fields_digest=digest,
    )  # fmt: skip
    judged = judge(operator.agent, session, ProposedCall("c1", "apply_change", FIELDS))
    assert judged.reviewed is not None
    before = {"created_at": rows.NOW - timedelta(days=2), "expires_at": rows.NOW - timedelta(days=1)}
    Proposal.objects.filter(pk=proposal.pk).update(**before)
    expired, _ = race(
        monkeypatch,
        lambda: reviewed.expire_proposal(session.pk, proposal.pk),
        lambda: record_step(lease, {"kind": "response", "parts": []}, {}, [judged]),
    )
    assert expired is True
    call = ToolCall.objects.get(session=session)
    assert (call.state, call.reason) == ("blocked", "policy")
    assert "is expired" in (call.result or {})["reason"]
