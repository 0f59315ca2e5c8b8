"""The same request at the same moment."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from cayu_review.services.membership import grant_role
from cayu_runtime.errors import Unfinished
from cayu_runtime.models import IdempotencyKey, Session
from cayu_runtime.services import idempotency
from cayu_runtime.services.idempotency import Done, do_once
from cayu_runtime.services.session import start_session
from cayu_runtime.services.tenant import create_tenant
from tests.api.clients import agent_client
from tests.machine import Counter, Machine, agent_of
from tests.race.rivals import race, together

pytestmark = pytest.mark.postgres


def test_20_parallel_posts_with_one_key_start_one_session(transactional_db: None) -> None:  # D6
    tenant = create_tenant("north", "North Ltd")
    user = User.objects.create_user("bob")
    grant_role(user, tenant, "viewer")
    agent = agent_of(Counter())
    one = agent_client(user, tenant)
    clients = [type(one)(type(one.client)(), **one.headers) for _ in range(20)]
    body = {"agent": agent.name, "text": "go"}

    answers = together(20, lambda number: clients[number].post("sessions/", body, **{"Idempotency-Key": "k"}))

    assert [answer.status_code for answer in answers] == [202] * 20
    assert len({answer.content for answer in answers}) == 1
    assert len([answer for answer in answers if "Idempotency-Replayed" in answer.headers]) == 19
    assert (Session.objects.count(), IdempotencyKey.objects.count()) == (1, 1)


def once(machine: Machine, agent: str, text: str = "go") -> Done:
    start = {"agent": agent, "text": text}
    return do_once(
        machine.tenant, machine.alice, "k", start, lambda keep: start_session(
            machine.tenant, machine.alice, agent=agent, text=text, keep=keep
        ),
    )  # fmt: skip


def test_the_later_waits_and_gets_what_the_earlier_did(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    name = agent_of(Counter()).name
    first, second = race(monkeypatch, lambda: once(machine, name), lambda: once(machine, name))
    assert (first.replay, second.replay) == (False, True)
    assert first.session.pk == second.session.pk


def test_who_waits_too_long_is_told_that_it_is_unfinished(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "WAIT_SECONDS", 0.05)
    name = agent_of(Counter()).name
    outcomes: list[object] = []

    def impatient() -> None:
        try:
            outcomes.append(once(machine, name))
        except Unfinished as refusal:
            outcomes.append(refusal)

    def first() -> Done:
        def act(keep: idempotency.Keep) -> Session:
            def held(change: object) -> None:
                keep(change)  # type: ignore[arg-type]
                (outcome,) = together(1, lambda _: impatient())
                assert outcome is None

            return start_session(machine.tenant, machine.alice, agent=name, text="go", keep=held)

        return do_once(machine.tenant, machine.alice, "k", {"agent": name, "text": "go"}, act)

    done = first()
    assert not done.replay
    assert isinstance(outcomes[0], Unfinished)
    assert once(machine, name).session.pk == done.session.pk
