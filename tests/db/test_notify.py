"""On PostgreSQL each commit with events tells listeners which session went how far; a rollback tells nothing."""

import psycopg
import pytest
from django.db import connection

from cayu_runtime.core.transitions import CHANNEL, transition
from cayu_runtime.errors import LostRace
from tests.machine import Counter, Machine, agent_of

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def test_a_commit_notifies_and_a_rollback_does_not(settings):
    settings.CAYU_AUTHORITY = "tests.machine.Everybody"
    machine = Machine()
    with psycopg.connect(**_where(), autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        session = machine.start(agent_of(Counter()), run=False)
        with pytest.raises(LostRace):
            rolled_back(session)
        with transition(session.pk) as change:
            change.event("session.resumed")
        heard = [note.payload for note in listener.notifies(timeout=5, stop_after=2)]
        more = list(listener.notifies(timeout=0))
    assert heard == [f"{machine.tenant.pk}:{session.pk}:{seq}" for seq in (1, 2)]
    assert more == []


def rolled_back(session):
    with transition(session.pk) as change:
        change.event("session.resumed")
        raise LostRace("Somebody else was first.")


def _where() -> dict:
    known = connection.get_connection_params()
    return {key: known[key] for key in ("host", "port", "user", "password", "dbname") if known.get(key)}
