"""A reviewed action after a restored backup: its proposal goes with what became of it."""

from __future__ import annotations

import pytest
from pytest_django.fixtures import Settings

from cayu_runtime import Finding, Observation
from cayu_runtime.services.session import resume_session
from tests.db.test_quarantine import ask_all, release, restore
from tests.machine import Machine
from tests.reviewing import Operator, act, actions, proposal, propose, waiting
from tests.settling import DONE, Adapter

pytestmark = pytest.mark.django_db(transaction=True)  # the recording tool writes from its own thread


@pytest.fixture
def machine(transactional_db: None, settings: Settings) -> Machine:
    settings.CAYU_AUTHORITY = "tests.machine.Everybody"
    return Machine()


def restored(machine: Machine, operator: Operator, answer: Observation):
    """Approved when the backup was made; then looked up, released and resumed."""
    session, approval = waiting(machine, operator)
    machine.decide(approval, "approve")
    operator.apply.reconciler = Adapter(answer)
    made = restore(machine)
    ask_all(machine)
    release(machine, made)
    resume_session(machine.tenant, machine.bob, session.session_id)
    return machine.run(session)


def test_done_since_the_backup_it_has_used_its_proposal_and_repeats_its_outcome(machine):
    operator = Operator([propose()], [act()], [act()])
    session = restored(machine, operator, Observation(Finding.CONFIRMED_DONE, result=DONE))
    first, again = actions(machine, session)
    assert (proposal().state, proposal().used_by_id) == ("used", first.pk)
    assert (again.state, again.result["replayed"]) == ("completed", True)
    assert (session.state, operator.apply.count) == ("completed", 0)


def test_not_done_since_the_backup_it_may_be_sent_once_under_its_proposal(machine):
    operator = Operator([propose()], [act()])
    session = restored(machine, operator, Observation(Finding.ABSENT, barred=True))
    assert (proposal().state, session.interruption) == ("open", "approval_required")
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (proposal().state, session.state, operator.apply.count) == ("used", "completed", 1)
