"""On PostgreSQL listeners hear after a commit how far a session's events go; a rollback tells nothing."""

import psycopg
import pytest
from django.db import connection

from cayu_runtime.core.announce import CHANNEL
from cayu_runtime.core.transitions import transition
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
        assert heard_of(listener, f"{machine.tenant.pk}:{session.pk}:2") in (1, 2)  # a burst may be told once
        assert list(listener.notifies(timeout=0)) == []


def heard_of(listener, place: str) -> int:
    """How many notifications came until this one."""
    for count, note in enumerate(listener.notifies(timeout=10), start=1):
        if note.payload == place:
            return count
    raise AssertionError(f"nobody told of {place}")


def rolled_back(session):
    with transition(session.pk) as change:
        change.event("session.resumed")
        raise LostRace("Somebody else was first.")


def _where() -> dict:
    known = connection.get_connection_params()
    return {key: known[key] for key in ("host", "port", "user", "password", "dbname") if known.get(key)}
