"""Opening dispatch again after a quarantine, and what stays stopped."""

from __future__ import annotations

import pytest

from cayu_runtime import Finding
from cayu_runtime.errors import Conflict, InvalidRequest
from cayu_runtime.models import DispatchPause
from cayu_runtime.services.pause import pause_dispatch, resume_dispatch
from cayu_runtime.services.quarantine import resume_stopped
from cayu_runtime.services.session import interrupt_session
from tests import rows
from tests.db.test_quarantine import ask_all, authorized, operator, release, restore
from tests.machine import Counter, Gate, agent_of
from tests.settling import Adapter, Downstream


def test_only_what_the_quarantine_stopped_is_resumed_with_it(machine):
    mine = machine.start(agent_of(Counter()), run=False)
    interrupt_session(machine.tenant, machine.bob, mine.session_id, reason="enough")
    other = machine.start(agent_of(Counter()), run=False)
    made = restore(machine)
    release(machine, made)
    assert resume_stopped(operator(machine), made, reason="go")[0] == 1
    mine.refresh_from_db()
    other.refresh_from_db()
    assert (mine.state, other.state) == ("interrupted", "pending")


def test_dispatch_is_closed_for_new_sessions_too_and_a_plain_resume_does_not_open_it(machine):
    made = restore(machine)
    tool = Counter()
    session = machine.start(agent_of(tool, policy=Gate()))
    assert (tool.count, machine.calls(session)[0].reason) == (0, "dispatch_paused")
    with pytest.raises(Conflict, match="recovery release"):
        resume_dispatch(operator(machine), tenant=machine.tenant)
    assert release(machine, made) == 1
    assert machine.run(session).state == "completed"
    assert tool.count == 1


def test_an_ordinary_pause_stands_beside_it_and_is_lifted_alone(machine):
    pause_dispatch(operator(machine), reason="maintenance", tenant=machine.tenant)
    restore(machine)
    resume_dispatch(operator(machine), tenant=machine.tenant)
    assert DispatchPause.objects.get().quarantine is not None


def test_it_is_released_only_when_nothing_is_unknown_or_what_is_left_is_named(machine):
    known, not_known = Downstream(Adapter(Finding.CONFIRMED_DONE)), Downstream(Adapter(Finding.UNSUPPORTED))
    authorized(machine, known)
    session = authorized(machine, not_known)
    made = restore(machine)
    with pytest.raises(Conflict) as refused:
        release(machine, made)
    assert len(refused.value.details["unknown"]) == 2
    ask_all(machine)
    effect = machine.effect(session)
    with pytest.raises(Conflict, match=str(effect.pk)):
        release(machine, made)
    with pytest.raises(InvalidRequest, match="--leave"):
        release(machine, made, effect, rows.effect())
    release(machine, made, effect)
    assert (made.released_by, DispatchPause.objects.count()) == ("user:bob", 0)
    assert machine.run(session).interruption == "effect_outcome_unknown"
    assert not_known.count == 0
    with pytest.raises(Conflict, match="already"):
        release(machine, made, effect)
