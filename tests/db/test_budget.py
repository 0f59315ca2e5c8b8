"""What a lifecycle may cost: commits and statements are counted, never timed (DESIGN §6, docs/benchmark.md)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from django.db import connection, transaction
from pytest_django.fixtures import Settings

from cayu_runtime import Agent, registry
from cayu_runtime.benchmark import marks
from cayu_runtime.benchmark.agents import CALLS, NOTE, REFERENCE, ROUNDS, VERIFY
from cayu_runtime.benchmark.counts import recorded_lifecycle
from cayu_runtime.benchmark.lifecycle import People, people, run_lifecycle, start, wake
from cayu_runtime.benchmark.recorder import Record, recording
from cayu_runtime.benchmark.replay import Replay, identities_of, plain_driver
from cayu_runtime.core import engine
from cayu_runtime.models import Event, Session, Tenant
from cayu_runtime.services.tenant import create_tenant

pytestmark = pytest.mark.django_db(transaction=True)  # what is counted are real commits

COMMITS = 13
COMMITS_OF_AN_APPROVED_CALL = 4
STATEMENTS = 92


@pytest.fixture
def who(transactional_db: None, settings: Settings) -> People:
    settings.CAYU_PROVIDERS = {"bench": "cayu_runtime.benchmark.script.model_named"}
    registry.register_for_test(REFERENCE, ROUNDS, CALLS)
    return people(engine.run_session)


def test_a_lifecycle_keeps_to_its_commits_and_statements(who: People) -> None:
    run_lifecycle(who)
    _, record = recorded_lifecycle(who)
    sent = "\n".join(statement.sql[:120] for unit in record.units for statement in unit.statements)
    assert record.commits <= COMMITS
    assert record.between("asked", VERIFY.spec.name) <= COMMITS_OF_AN_APPROVED_CALL
    assert record.statements <= STATEMENTS, f"{record.statements} statements:\n{sent}"


def at_each(mark: str, who: People, agent: Agent, text: str) -> list[tuple[int, int]]:
    """(statements, commits) so far, each time the model was asked or a tool ran in one whole session."""
    seen: list[tuple[int, int]] = []

    def heard(what: str) -> None:
        if what == mark:
            seen.append((record.statements, record.commits))

    with recording() as record, marks.listening(heard):
        session = start(who, agent, text)
        wake(who, session)
    session.refresh_from_db()
    assert session.state == "completed"
    return seen


def differences(seen: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(seen)]


def test_a_late_round_costs_what_an_early_one_costs(who: People) -> None:
    seen = at_each("model", who, ROUNDS, "40")
    spent = differences(seen)
    assert len(spent) == 40
    assert set(spent[1:]) == {spent[1]}
    assert spent[1][1] == 2, "a round with one reading call is two commits: the model's step and the call"


def test_an_effect_call_is_two_commits_whatever_came_before_it(who: People) -> None:
    seen = at_each(NOTE.spec.name, who, CALLS, "notes")
    spent = differences(seen)
    assert set(spent) == {spent[0]}
    assert spent[0][1] == 2


def test_what_is_rolled_back_is_no_commit(transactional_db: None) -> None:
    with recording() as record:
        with transaction.atomic():
            create_tenant("first", "First")
            transaction.set_rollback(True)
        with transaction.atomic():
            Tenant.objects.filter(slug="nobody").exists()
    assert (record.commits, len(record.units)) == (0, 2)


def test_a_write_outside_of_a_transaction_is_a_commit_and_a_read_is_none(transactional_db: None) -> None:
    with recording() as record:
        Tenant.objects.filter(slug="nobody").exists()
        Tenant.objects.filter(slug="nobody").update(name="somebody")
    assert (record.commits, record.statements) == (1, 2)
    create_tenant("later", "Later")
    assert record.statements == 2, "nothing is recorded once it has been left"


def shape(session: Session) -> list[tuple[str, int]]:
    return list(Event.objects.filter(session=session).order_by("seq").values_list("type", "seq"))


def test_the_plain_driver_writes_the_same_lifecycle_anew(who: People) -> None:
    original, record = recorded_lifecycle(who)
    replay = Replay(record, identities_of(original, record), qmarks=connection.vendor == "sqlite")
    driver = plain_driver()
    try:
        for _ in range(2):
            replay.send(driver, replay.fresh())
    finally:
        driver.close()
    copies = Session.objects.exclude(pk=original.pk)
    assert [session.state for session in copies] == ["completed", "completed"]
    assert all(shape(session) == shape(original) for session in copies)


def test_a_replay_that_touches_other_rows_than_recorded_fails(who: People) -> None:
    original, record = recorded_lifecycle(who)
    unit = next(unit for unit in record.units if any(s.sql.startswith("UPDATE") for s in unit.statements))
    alone = Replay(Record([unit]), identities_of(original, record), qmarks=connection.vendor == "sqlite")
    driver = plain_driver()
    try:
        with pytest.raises(AssertionError, match="touched 0 rows instead of 1"):
            alone.send(driver, alone.fresh())
    finally:
        driver.close()
