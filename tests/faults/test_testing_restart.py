"""`cayu_runtime.testing.RestartHarness`: legs in processes of their own, some of them killed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from django.db import transaction
from django.utils import timezone

from cayu_runtime import Agent, Call, Reply, ToolContext, ToolEffect, ToolResult, tool
from cayu_runtime.errors import AlreadyDecided, NotPermitted
from cayu_runtime.models import EffectRecord
from cayu_runtime.policies import RequireApproval
from cayu_runtime.testing import MOMENTS, RestartHarness, ScriptError, Step
from cayu_runtime.tools.ask_user import AskUser
from tests.faults.deployment import is_alive

pytestmark = [pytest.mark.usefixtures("transactional_db"), pytest.mark.timeout(300)]

JOURNAL = "CAYU_TEST_RESTART_JOURNAL"
SCRIPT: list[Step] = [Call("pay", {"to": "x"}), Reply("Paid.")]


def write_down(ctx: ToolContext) -> ToolResult:
    with Path(os.environ[JOURNAL]).open("a") as journal:
        journal.write(json.dumps({"pid": os.getpid(), "key": ctx.idempotency_key, "replayed": ctx.replayed}) + "\n")
    return ToolResult("done")


@tool(effect=ToolEffect.EXTERNAL)
def pay(ctx: ToolContext, to: str) -> ToolResult:
    return write_down(ctx)


@tool(effect=ToolEffect.IDEMPOTENT)
def label(ctx: ToolContext, to: str) -> ToolResult:
    return write_down(ctx)


def payer() -> Agent:
    """What a leg builds anew."""
    return Agent(
        name="payer",
        model="openai:gpt-never-asked",
        tools=(pay, label, AskUser()),
        policy=RequireApproval(("pay", "label")),
    )


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def harness(journal: Path) -> RestartHarness:
    return RestartHarness(
        "payer", SCRIPT, factory="tests.faults.test_testing_restart.payer", environment={JOURNAL: str(journal)}
    )


def lines(journal: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []


def test_each_thing_that_is_done_is_done_by_a_process_of_its_own(harness: RestartHarness, journal: Path):
    run = harness.start("pay").go()
    assert run.state == "approval_required"
    run.approve().go()
    assert (run.state, run.text()) == ("completed", "Paid.")
    assert len({os.getpid(), *harness.pids}) == 5
    assert [line["pid"] for line in lines(journal)] == harness.pids[-1:]
    assert not any(is_alive(pid) for pid in harness.pids)


def test_a_question_outlives_its_process_and_is_answered_in_another(journal: Path):
    ask = Call("ask_user", {"question": "In full?"})
    script: list[Step] = [[ask, Call("pay", {"to": "x"})], Reply("Paid in full.")]
    environment = {JOURNAL: str(journal)}
    harness = RestartHarness(
        "payer", script, factory="tests.faults.test_testing_restart.payer", environment=environment
    )  # fmt: skip
    run = harness.start("pay")
    harness.kill_at("after_step")
    assert run.go().state == "user_input_required"
    [question] = [waiting for waiting in run.waiting() if waiting.kind == "question"]
    run.answer("yes, in full", question).approve()
    with pytest.raises(AlreadyDecided):
        run.answer("no", question, by="bob")
    run.go()
    assert (run.state, run.text(), len(lines(journal))) == ("completed", "Paid in full.", 1)
    assert [result.content for result in run.results()] == ["yes, in full", "done"]
    assert len(set(harness.pids)) == len(harness.pids) == 6


def test_refusals_and_problems_of_a_leg_are_raised_in_the_test(harness: RestartHarness):
    run = harness.start("pay").go()
    [waiting] = run.waiting()
    with pytest.raises(NotPermitted) as refused:
        run.approve(by="alice")
    assert refused.value.code == "own_request"
    run.deny(waiting, reason="no")
    with pytest.raises(AlreadyDecided):
        run.approve(waiting)
    harness.script = harness.script[:1] if harness.script else None
    with pytest.raises(ScriptError, match="asks for step 2"):
        run.go()


def test_killed_around_an_external_call_it_is_sent_once_or_stops(harness: RestartHarness, journal: Path):
    endings = {
        "before_intent": (1, "completed"),
        "after_intent": (0, "effect_outcome_unknown"),
        "before_settlement": (1, "effect_outcome_unknown"),
        "after_settlement": (1, "completed"),
    }
    runs = dict(zip(endings, harness.start_each(endings), strict=True))
    harness.go_each(runs.values())
    harness.decide_each([run.waiting()[0] for run in runs.values()], "approve")
    for moment, (times, state) in endings.items():
        run, before = runs[moment], len(lines(journal))
        harness.kill_at(moment)
        assert run.go().session.state == "running"
        assert run.go().state == state, moment
        assert len(lines(journal)) - before == times, moment
        EffectRecord.objects.filter(session=run.pk).update(abandoned_at=timezone.now())  # else it holds its equals


def test_killed_around_the_model_s_step_there_is_one_approval(harness: RestartHarness):
    for moment, run in zip(("before_step", "after_step"), harness.start_each(["pay", "pay"]), strict=True):
        harness.kill_at(moment)
        run.go().go()
        assert (run.state, len(run.calls()), len(run.waiting())) == ("approval_required", 1, 1), moment


def test_an_idempotent_call_is_repeated_once_under_its_key(harness: RestartHarness, journal: Path):
    harness.script = [{"text": "", "calls": [["label", {"to": "x"}, ""]]}, {"text": "Done.", "calls": []}]
    run = harness.start("label").go().approve()
    harness.kill_at("before_settlement")
    run.go().go()
    first, second = lines(journal)
    assert first["key"] == second["key"]
    assert (first["replayed"], second["replayed"], run.state) == (False, True, "completed")
    assert first["pid"] != second["pid"]


def test_a_moment_that_never_comes_and_one_that_does_not_exist_are_said(harness: RestartHarness):
    run = harness.start("pay")
    harness.kill_at("after_settlement")
    with pytest.raises(AssertionError, match="before it came to 'after_settlement'"):
        run.go()
    with pytest.raises(ValueError, match=f"The moments are: {', '.join(MOMENTS)}"):
        harness.kill_at("lunch")


def test_a_leg_that_fails_says_why(harness: RestartHarness):
    harness.factory = "tests.nowhere.build"
    with pytest.raises(RuntimeError, match=r"No module named 'tests\.nowhere'"):
        harness.start("pay")
    harness.factory = ""
    with pytest.raises(AssertionError, match="no agent 'payer'"):
        harness.start("pay")
    harness.environment["CAYU_APPS"] = "nowhere"
    with pytest.raises(RuntimeError, match=r"(?s)could not be prepared.*No module named 'nowhere'"):
        harness.start("pay")


def test_rows_that_another_process_cannot_see_are_refused():
    with transaction.atomic(), pytest.raises(RuntimeError, match="transaction=True"):
        RestartHarness("payer")
