"""What a tenant may have at once: sessions, requests of one agent that wait for people, steps of a session."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from cayu_runtime import Agent, Call, Limits, Reply, registry
from cayu_runtime.contracts import ToolEffect
from cayu_runtime.core import engine
from cayu_runtime.core.judgement import judge
from cayu_runtime.errors import InvalidRequest, LimitReached, SessionExists
from cayu_runtime.models import Approval, AuditEntry, EffectRecord, Session, Tenant
from cayu_runtime.services.session import abandon_session, continue_session, resume_session, start_session
from cayu_runtime.services.tenant import LIMITS, MAX_LIMIT, limit_tenant
from tests import rows
from tests.machine import Counter, Gate, Machine, agent_of
from tests.reviewing import Operator, act, actions, proposal, propose

ASK = Gate(move_money="require_approval")


def limit(machine: Machine, **limits: int | None) -> None:
    """The door reads the tenant anew with each request."""
    limit_tenant(machine.bob, machine.tenant, limits, reason="the test says so")
    machine.tenant.refresh_from_db()


def pays(*to: str, agent: str = "payer") -> Agent:
    """An agent that asks for each payment of one round, then tells what came of them."""

    def rule(turn: Any) -> Reply:
        if not turn.outcomes:
            return Reply(calls=tuple(Call("move_money", {"to": one}) for one in to))
        return Reply(" ".join(f"{o.tool}: {o.status}." for o in turn.outcomes))

    made = Agent(name=agent, model=rule, tools=(Counter(),), policy=ASK)
    registry.register_for_test(made)
    return made


# ---- sessions that have not ended ----


def test_one_session_too_many_is_refused_and_leaves_nothing(machine: Machine) -> None:
    agent = agent_of(rounds=[])
    limit(machine, max_running_sessions=2)
    first = machine.start(agent, run=False)
    machine.start(agent_of(Counter(), policy=ASK))  # it waits for a person, and holds its place
    with pytest.raises(LimitReached, match="2 sessions of this tenant have not ended") as refused:
        machine.start(agent, run=False)
    assert refused.value.details == {"limit": "running_sessions", "most": 2}
    assert Session.objects.count() == 2
    assert machine.run(first).state == "completed"
    machine.start(agent, run=False)
    assert Session.objects.count() == 3


def test_a_stopped_session_holds_its_place_until_it_is_given_up(machine: Machine) -> None:
    limit(machine, max_running_sessions=1)
    stopped = rows.session(
        "interrupted", tenant=machine.tenant, interruption="operator_requested", stopped_by="operator_requested"
    )
    with pytest.raises(LimitReached):
        machine.start(agent_of(rounds=[]))
    abandon_session(machine.tenant, machine.bob, stopped.session_id, reason="nobody needs it")
    assert machine.start(agent_of(rounds=[])).state == "completed"


def test_what_has_ended_runs_again_only_where_there_is_room(machine: Machine) -> None:
    agent = agent_of(rounds=[])
    done = machine.start(agent)
    failed = rows.session("failed", tenant=machine.tenant, agent=agent.name)
    limit(machine, max_running_sessions=1)
    busy = machine.start(agent, run=False)
    before = (machine.transcript(done), machine.events(done), machine.events(failed))
    with pytest.raises(LimitReached):
        continue_session(machine.tenant, machine.alice, done.session_id, text="once more")
    with pytest.raises(LimitReached):
        resume_session(machine.tenant, machine.bob, failed.session_id)
    assert (machine.transcript(done), machine.events(done), machine.events(failed)) == before
    machine.run(busy)
    assert resume_session(machine.tenant, machine.bob, failed.session_id).state == "pending"


def test_what_has_not_ended_always_goes_on(machine: Machine) -> None:
    """A decision, a message or a lifted stop is never refused for a limit: the session has its place."""
    waits = machine.start(agent_of(Counter(), policy=ASK))
    stopped = rows.session(
        "interrupted", tenant=machine.tenant, agent=waits.agent, interruption="operator_requested",
        stopped_by="operator_requested",
    )  # fmt: skip
    spoken_to = rows.session(
        "interrupted", tenant=machine.tenant, agent=waits.agent, interruption="limit_reached",
        stopped_by="limit_reached",
    )  # fmt: skip
    limit(machine, max_running_sessions=1)
    machine.decide(machine.approvals(waits)[0], "approve")
    assert machine.run(waits).state == "completed"
    assert resume_session(machine.tenant, machine.bob, stopped.session_id).state == "pending"
    assert continue_session(machine.tenant, machine.alice, spoken_to.session_id, text="go on")[0].state == "pending"


def test_a_start_that_is_sent_again_finds_its_session_not_the_limit(machine: Machine) -> None:
    limit(machine, max_running_sessions=1)
    agent = agent_of(rounds=[])
    start_session(machine.tenant, machine.alice, agent=agent.name, text="go", session_id="mine")
    with pytest.raises(SessionExists):
        start_session(machine.tenant, machine.alice, agent=agent.name, text="go", session_id="mine")
    with pytest.raises(LimitReached):
        start_session(machine.tenant, machine.alice, agent=agent.name, text="go", session_id="another")


def test_each_tenant_has_its_own_limit(machine: Machine) -> None:
    limit(machine, max_running_sessions=1)
    agent, other = agent_of(rounds=[]), Machine()
    machine.start(agent, run=False)
    other.start(agent, run=False)
    other.start(agent, run=False)


def statements(machine: Machine, agent: Agent) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        machine.start(agent)
    return [query["sql"] for query in queries]


def test_a_tenant_without_limits_pays_nothing(machine: Machine) -> None:
    agent = pays("x")
    machine.start(agent)
    free = statements(machine, agent)
    limit(machine, max_steps=9)
    assert len(statements(machine, agent)) == len(free), "steps are counted anyway"
    assert not [sql for sql in free if "count(" in sql.lower() or 'from "cayu_runtime_tenant"' in sql.lower()]
    limit(machine, max_running_sessions=1000, max_pending_approvals=1000)
    assert len(statements(machine, agent)) == len(free) + 4, "a lock and a bounded count, twice"


# ---- requests that wait for people ----


def test_a_request_beyond_the_limit_is_blocked_and_the_model_is_told(machine: Machine) -> None:
    limit(machine, max_pending_approvals=2)
    session = machine.start(pays("a", "b", "c", "d"))
    assert [call.state for call in machine.calls(session)] == ["awaiting_approval"] * 2 + ["blocked"] * 2
    blocked = machine.calls(session)[2]
    assert (blocked.reason, blocked.held_by_id) == ("limit_reached", None)
    assert blocked.result["executed"] is False
    assert "2 requests of agent 'payer' wait for people already" in blocked.result["reason"]
    assert (Approval.objects.count(), EffectRecord.objects.count()) == (2, 2)
    for approval in machine.approvals(session):
        machine.decide(approval, "approve")
    assert machine.run(session).state == "completed"
    assert machine.last_text(session).count("blocked") == 2


@pytest.mark.django_db(transaction=True)  # the recording tool writes from its own thread
def test_a_reviewed_action_without_room_keeps_its_proposal_and_is_asked_again(machine: Machine) -> None:
    limit(machine, max_pending_approvals=1)
    operator = Operator([propose()], [act()])
    elsewhere = rows.session("interrupted", tenant=machine.tenant, interruption="approval_required")
    other = rows.approval(call=rows.call("awaiting_approval", session=elsewhere), agent=operator.agent.name)
    session = machine.start(operator.agent)
    (blocked,) = actions(machine, session)
    assert (blocked.state, blocked.reason, session.state) == ("blocked", "limit_reached", "completed")
    assert proposal().state == "open"
    Approval.objects.filter(pk=other.pk).update(agent="another")
    operator.rounds = ([act()],)
    continue_session(machine.tenant, machine.alice, session.session_id, text="try it again")
    machine.run(session)
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.state, operator.apply.count, proposal().state) == ("completed", 1, "used")


def test_a_session_whose_every_request_is_blocked_goes_on_by_itself(machine: Machine) -> None:
    limit(machine, max_pending_approvals=1)
    first, second = machine.start(pays("a")), machine.start(pays("b"))
    assert (first.interruption, second.state) == ("approval_required", "completed")
    assert [event for event in machine.events(second) if event.startswith("tool.")] == ["tool.call.blocked"]
    machine.decide(machine.approvals(first)[0], "deny")
    assert machine.start(pays("b")).interruption == "approval_required", "there is room again, for the same action too"


def test_each_agent_has_its_own_room(machine: Machine) -> None:
    limit(machine, max_pending_approvals=1)
    machine.start(pays("a"))
    assert machine.start(pays("a", agent="other")).interruption == "approval_required"


def test_what_asks_nobody_needs_no_room(machine: Machine) -> None:
    limit(machine, max_pending_approvals=1)
    machine.start(pays("a"))
    look = Counter("look", ToolEffect.NONE)
    assert machine.start(agent_of(look)).state == "completed"
    assert look.count == 1


def test_a_limit_that_is_lifted_while_a_worker_holds_the_session_is_lifted(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has read the limit with the transcript; the row says what is true by now."""

    def judged(*of: Any) -> Any:
        limit_tenant(machine.bob, machine.tenant, {"max_pending_approvals": None}, reason="enough")
        return judge(*of)

    monkeypatch.setattr(engine, "judge", judged)
    limit(machine, max_pending_approvals=1)
    session = machine.start(pays("a", "b"))
    assert [call.state for call in machine.calls(session)] == ["awaiting_approval"] * 2


# ---- steps ----


def looks(steps: int) -> Agent:
    agent = Agent(
        name="looker",
        model=lambda turn: Reply(calls=(Call("look", {"to": "x"}),)),
        tools=(Counter("look", ToolEffect.NONE),),
        limits=Limits(max_steps=steps),
    )
    registry.register_for_test(agent)
    return agent


@pytest.mark.parametrize(
    "of_agent, of_tenant, steps, whose",
    [
        (5, 2, 2, "the limit of this tenant is 2."),
        (2, 5, 2, "the limit of agent 'looker' is 2."),
        (3, 3, 3, "the limit of agent 'looker' is 3."),
        (2, None, 2, "the limit of agent 'looker' is 2."),
    ],
)
def test_the_stricter_limit_of_steps_counts_and_says_whose_it_is(
    of_agent: int, of_tenant: int | None, steps: int, whose: str, machine: Machine
) -> None:
    limit(machine, max_steps=of_tenant)
    session = machine.start(looks(of_agent))
    assert (session.interruption, session.stopped_by, session.steps) == ("limit_reached", "limit_reached", steps)
    said = session.event_set.get(type="session.limit_reached").payload["reason"]
    assert said == f"{steps} model steps were taken; {whose}"
    resume_session(machine.tenant, machine.bob, session.session_id)
    assert machine.run(session).steps == steps, "resumed, it may take as many again"


# ---- setting them ----


def test_limits_are_set_by_name_and_stand_on_the_chain(machine: Machine) -> None:
    limit(machine, max_running_sessions=5, max_steps=9)
    limit(machine, max_steps=None)
    tenant = machine.tenant
    assert (tenant.max_running_sessions, tenant.max_pending_approvals, tenant.max_steps) == (5, None, None)
    entry = AuditEntry.objects.filter(tenant=tenant).latest("seq")
    assert (entry.type, entry.actor, entry.payload["reason"]) == ("tenant.limited", "user:bob", "the test says so")
    assert entry.payload["before"] == {**dict.fromkeys(LIMITS), "max_running_sessions": 5, "max_steps": 9}
    assert entry.payload["after"] == {**dict.fromkeys(LIMITS), "max_running_sessions": 5}


@pytest.mark.parametrize(
    "limits, reason",
    [
        ({}, "why"),
        ({"slug": 3}, "why"),
        ({"max_steps": 0}, "why"),
        ({"max_steps": MAX_LIMIT + 1}, "why"),
        ({"max_steps": 3}, " \x07"),
    ],
)
def test_what_is_no_limit_is_refused(limits: dict[str, int | None], reason: str, machine: Machine) -> None:
    with pytest.raises(InvalidRequest):
        limit_tenant(machine.bob, machine.tenant, limits, reason=reason)
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("name", LIMITS)
def test_the_database_refuses_a_limit_that_allows_nothing(name: str, machine: Machine) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Tenant.objects.filter(pk=machine.tenant.pk).update(**{name: 0})


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("tenant", "limits", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_shows_sets_and_lifts(machine: Machine) -> None:
    User.objects.create_user("olga")
    slug = machine.tenant.slug
    assert run(slug).count("no limit") == 3
    by = ("--as", "olga", "--reason", "they asked for it")
    said = run(slug, "--running", "7", "--approvals", "3", *by)
    assert "sessions that have not ended: at most 7" in said
    assert "model steps of one session in a row: no limit" in said
    run(slug, "--running", "none", *by)
    machine.tenant.refresh_from_db()
    assert (machine.tenant.max_running_sessions, machine.tenant.max_pending_approvals) == (None, 3)
    entry = AuditEntry.objects.filter(tenant=machine.tenant).latest("seq")
    assert (entry.payload["by_name"], entry.payload["source"]) == ("olga", "shell")


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["nowhere"], "There is no tenant 'nowhere'"),
        (["--steps", "5"], "Say who sets it"),
        (["--steps", "5", "--as", "olga"], "Say why"),
        (["--steps", "5", "--as", "nobody", "--reason", "x"], "There is no person 'nobody'"),
        (["--steps", "0", "--as", "olga", "--reason", "x"], "A limit is from 1 to 1,000,000, or none"),
        (["--steps", "many", "--as", "olga", "--reason", "x"], "'many' is no limit"),
        (["--steps", "-3", "--as", "olga", "--reason", "x"], "expected one argument|no limit"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], said: str, machine: Machine) -> None:
    User.objects.create_user("olga")
    slug = [] if arguments[0] == "nowhere" else [machine.tenant.slug]
    with pytest.raises(CommandError, match=said):
        run(*slug, *arguments)
    assert not AuditEntry.objects.exists()
