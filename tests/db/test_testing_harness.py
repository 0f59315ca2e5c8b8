"""`cayu_runtime.testing.Harness` and its scripted model, as an application's tests use them."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from cayu_runtime import (
    Actor,
    Agent,
    Call,
    Permit,
    Refusal,
    Reply,
    ToolContext,
    ToolResult,
    authority,
    registry,
)
from cayu_runtime.errors import AlreadyDecided, InvalidRequest, NotPermitted
from cayu_runtime.models import Session
from cayu_runtime.policies import RequireApproval
from cayu_runtime.testing import Harness, NetworkUsed, ScriptedModel, ScriptError
from cayu_runtime.tools.ask_user import AskUser
from tests.machine import Counter

pytestmark = pytest.mark.django_db

PAY = Call("move_money", {"to": "a secret account"})


def agent(tool: Counter, expires_in: float | None = None) -> Agent:
    return Agent(
        name="payer",
        model="openai:gpt-never-asked",
        instructions="Pay.",
        tools=(tool,),
        policy=RequireApproval(("move_money",), expires_in=expires_in),
    )


def test_an_agent_is_run_asked_about_approved_and_run_to_its_end():
    """A1, A2, by the harness alone."""
    tool = Counter()
    script = ScriptedModel([PAY, Reply("Paid.")])
    harness = Harness(agent(tool), script)
    run = harness.start("pay them").go()
    assert (run.state, tool.count) == ("approval_required", 0)
    [waiting] = run.waiting()
    assert (waiting.kind, waiting.tool, waiting.verb) == ("approval", "move_money", "move money")
    assert "secret" not in repr(waiting)

    run.approve().go()
    assert (run.state, tool.count, run.text(), run.waiting()) == ("completed", 1, "Paid.", [])
    [result] = run.results()
    assert (result.tool, result.status, result.executed) == ("move_money", "completed", True)
    assert [effect.state for effect in run.effects()] == ["completed"]
    assert [event.type for event in run.events()][-1] == "session.completed"
    assert [told.tools for told in script.told] == [("move_money",), ("move_money",)]
    assert (script.told[0].instructions, script.told[0].turn.message) == ("Pay.", "pay them")
    assert [outcome.status for outcome in script.told[1].turn.outcomes] == ["completed"]


def test_a_denial_reaches_the_model_with_its_reason():
    tool = Counter()
    script = ScriptedModel([PAY, Reply("Not paid.")])
    run = Harness(agent(tool), script).start("pay").go().deny(reason="Too much.").go()
    assert (run.state, tool.count, run.results()[0].status) == ("completed", 0, "denied")
    assert "Too much." in script.told[1].turn.outcomes[0].content


def test_decisions_go_through_the_services_and_the_given_authority():
    class NobodyButErin:
        def may(self, actor: Actor, action: str, obj: Any) -> Permit | Refusal:
            return Permit() if action != "decide" or actor.name == "erin" else Refusal("not_permitted", "Not you.")

    run = Harness(agent(Counter()), [PAY, Reply("x")], authority=NobodyButErin()).start("pay").go()
    [waiting] = run.waiting()
    with pytest.raises(NotPermitted, match="Not you"):
        run.approve(by="bob")
    run.approve(by="erin")
    with pytest.raises(AlreadyDecided):
        run.deny(waiting, by="erin", reason="too late")


def test_four_eyes_hold_with_the_usual_colleagues_and_the_deployment_s_authority_can_be_asked(settings: Settings):
    run = Harness(agent(Counter()), [PAY]).start("pay", by="alice").go()
    with pytest.raises(NotPermitted) as refused:
        run.approve(by="alice")
    assert refused.value.code == "own_request"
    settings.CAYU_AUTHORITY = ""
    with pytest.raises(NotPermitted, match="No authority is set"):
        Harness(agent(Counter()), [PAY], authority=None).start("pay")


def test_time_is_moved_not_waited_for():
    tool = Counter()
    harness = Harness(agent(tool, expires_in=60), [PAY, Reply("Nobody came.")])
    run = harness.start("pay").go()
    harness.advance(timedelta(seconds=59))
    assert harness.expire() == 0
    harness.advance(timedelta(seconds=2))
    assert harness.expire() == 1
    run.go()
    assert (run.results()[0].status, tool.count, run.text()) == ("expired", 0, "Nobody came.")


def test_nothing_but_rows_stays_behind(settings: Settings):
    before, providers, may = dict(registry.agents()), dict(settings.CAYU_PROVIDERS), settings.CAYU_AUTHORITY
    run = Harness(agent(Counter()), [PAY]).start("pay").go()
    assert registry.agents() == before
    assert (providers, may) == (settings.CAYU_PROVIDERS, settings.CAYU_AUTHORITY)
    assert Session.objects.get(pk=run.pk).agent == "payer"
    settings.CAYU_AUTHORITY = "cayu_runtime.testing.harness.Given"
    with pytest.raises(NotPermitted, match="No harness acts"):
        authority.require(run.harness.person("bob"), "view")


def test_a_script_that_is_too_short_says_at_which_step_and_what_the_model_was_told():
    run = Harness(agent(Counter()), [PAY]).start("pay").go().approve()
    with pytest.raises(ScriptError, match=r"has 1 steps, and the agent asks for step 2.*move_money completed"):
        run.go()
    assert run.state == "model_unavailable"


def test_a_script_that_is_not_the_one_of_the_transcript_is_refused():
    harness = Harness(agent(Counter()), [PAY, Reply("Paid.")])
    run = harness.start("pay").go().approve()
    run.harness = Harness(agent(Counter()), [Call("move_money", {"to": "you"}), Reply("x")], tenant=harness.tenant)
    with pytest.raises(ScriptError, match=r"Step 1 of the script .*you.* the transcript has .*secret account"):
        run.go()


def test_steps_are_replies_calls_or_several_calls():
    run = Harness(agent(Counter()), [[PAY, PAY], Reply("x")]).start("pay").go()
    assert len(run.waiting()) == 2
    with pytest.raises(AssertionError, match=r"Say which approval: 2 wait \(move_money, move_money\)"):
        run.approve()
    for step in ("pay", [], [Reply("x")]):
        with pytest.raises(TypeError, match="A step is"):
            ScriptedModel([step])  # type: ignore[list-item]


def test_a_connection_is_refused_and_named():
    def call_home(ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        with socket.socket() as line:
            line.connect(("192.0.2.1", 81))
        return ToolResult("done")

    tool = Counter(does=call_home)
    run = Harness(agent(tool), [PAY, Reply("x")]).start("pay").go().approve()
    with pytest.raises(NetworkUsed, match=r"tried to connect to 192\.0\.2\.1:81"):
        run.go()
    assert (tool.count, run.state) == (1, "effect_outcome_unknown")


def test_a_connection_is_made_where_the_test_allows_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = server.getsockname()

        def call(ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
            socket.create_connection(where, timeout=5).close()
            return ToolResult("done")

        harness = Harness(agent(Counter(does=call)), [PAY, Reply("x")], network=True)
        assert harness.start("pay").go().approve().go().state == "completed"


ASK = Call("ask_user", {"question": "In full?", "choices": ["yes", "no"]})


def asker(tool: Counter) -> Agent:
    return Agent(
        name="asker", model="openai:gpt-never-asked", tools=(tool, AskUser()), policy=RequireApproval(("move_money",))
    )


def test_a_question_is_answered_and_its_answer_told_to_the_script():
    tool = Counter()
    run = Harness(asker(tool), [[ASK, PAY], Reply("Paid in full.")]).start("pay", by="alice").go()
    approval, question = run.waiting()
    assert (run.state, approval.kind, question.kind) == ("user_input_required", "approval", "question")
    assert (question.tool, question.text, question.version) == ("ask_user", "In full?", 1)
    run.answer("yes", by="alice")
    with pytest.raises(AssertionError, match="Say which question: 0 wait"):
        run.answer("no")
    with pytest.raises(AlreadyDecided, match="Already answered by alice"):
        run.answer("no", question, by="bob")
    assert (run.answer("yes", question, by="alice").state, tool.count) == ("approval_required", 0)
    run.approve().go()
    assert (run.state, tool.count, run.text()) == ("completed", 1, "Paid in full.")
    assert [(result.status, result.content) for result in run.results()] == [
        ("completed", "yes"),
        ("completed", "done"),
    ]


def test_a_question_is_not_approved_and_an_approval_not_answered():
    run = Harness(asker(Counter()), [[ASK, PAY]]).start("pay").go()
    approval, question = run.waiting()
    with pytest.raises(AssertionError, match="waits for an answer to a question, not for an approval"):
        run.approve(question)
    with pytest.raises(AssertionError, match="waits for an approval, not for an answer"):
        run.answer("yes", approval)
    with pytest.raises(InvalidRequest, match="yes; no"):
        run.answer("perhaps")
    assert {waiting.id for waiting in run.waiting()} == {approval.id, question.id}


def test_a_question_that_nobody_answers_expires_by_the_harness_s_clock():
    harness = Harness(asker(Counter()), [ASK, Reply("Nobody said.")])
    run = harness.start("pay").go()
    harness.advance(timedelta(days=7, seconds=1))
    assert harness.expire() == 1
    assert (run.go().state, run.results()[0].status, run.text()) == ("completed", "expired", "Nobody said.")


def test_a_session_can_be_stopped_by_a_person():
    harness = Harness(agent(Counter()), [PAY])
    run = harness.start("pay").go()
    harness.stop(run, reason="Changed my mind.")
    assert (run.state, run.results()[0].status) == ("operator_requested", "cancelled")


def test_an_agent_is_named_only_if_an_installed_app_has_it():
    assert Harness("refunds").agent.name == "refunds"
    with pytest.raises(LookupError, match="no agent 'nobody'"):
        Harness("nobody")
