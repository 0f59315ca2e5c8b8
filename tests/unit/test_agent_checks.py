"""What system checks say of registered agents: decided from declarations alone, no guard and no policy is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from django.core.checks import Tags, run_checks

from cayu_runtime import (
    Agent,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    Reconciler,
    Tool,
    ToolEffect,
    Verifier,
    tool,
)
from cayu_runtime.checks import messages_about
from cayu_runtime.policies import (
    Allow,
    ByEnvironment,
    ByTool,
    Deny,
    DenyTools,
    Guarded,
    OnlyFor,
    RequireApproval,
    Strictest,
)
from tests.unit.policies.asked import Part

UNCOVERED, UNKNOWN, UNUSABLE, WRONG_KIND, NO_RECONCILER = "E030", "E031", "E032", "E033", "W010"
ALL = Allow(("*",))


@tool(effect=ToolEffect.NONE)
def look(order: str) -> str:
    """Look at an order."""
    raise AssertionError("a check runs no tool")


@tool(effect=ToolEffect.EXTERNAL, reconciler=Reconciler(), verifier=Verifier())
def refund(order: str) -> str:
    """Refund an order."""
    raise AssertionError("a check runs no tool")


def asked(request: PolicyRequest) -> Any:
    raise AssertionError("a check asks about no call")


SILENT = Part(asked)


def found(*agents: Agent) -> list[str]:
    messages = list(messages_about(agents))
    assert all(message.hint for message in messages), "each says the fix"
    return [f"{str(message.id).removeprefix('cayu.')} {message.msg}" for message in messages]


def ids(*agents: Agent) -> list[str]:
    return [text.split()[0] for text in found(*agents)]


def clerk(policy: Any, *tools: Tool, **fields: Any) -> Agent:
    return Agent("clerk", "m", tools=tools or (look, refund), policy=policy, **fields)


# ---- decision path ----


@pytest.mark.parametrize(
    "policy",
    [
        None,
        ALL,
        Allow(("look", "refund")),
        RequireApproval(("refund",)),
        ByTool({"refund": RequireApproval(("*",)), "look": ALL}),
        ByTool({"refund": Deny()}, otherwise=ALL),
        Guarded((SILENT, DenyTools(("look",))), ALL),
        Strictest((ALL, RequireApproval(("refund",)))),
        SILENT,
        Guarded((SILENT,), SILENT),
        Strictest((ALL, SILENT)),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_policy_that_answers_for_each_tool_or_cannot_say_is_fine(policy: Any) -> None:
    assert found(clerk(policy)) == []


@pytest.mark.parametrize(
    "policy",
    [
        Allow(("look",)),
        ByTool({"look": ALL}),
        ByTool({"look": ALL, "ref*": Allow(("look",))}),
        Guarded((SILENT,), Allow(("look",))),
        Strictest((ALL, Allow(("look",)))),
        Strictest((SILENT, Allow(("look",)))),
        ByEnvironment({"here": Allow(("look",)), "there": ALL}),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_tool_that_falls_through_is_an_error(policy: Any) -> None:
    (said,) = found(clerk(policy, environment="here"))
    assert said.startswith(UNCOVERED)
    assert "'refund'" in said


@pytest.mark.parametrize("environment", ["", "elsewhere"])
def test_an_environment_without_a_rule_leaves_every_tool_without_one(environment: str) -> None:
    assert ids(clerk(ByEnvironment({"here": ALL}), environment=environment)) == [UNCOVERED, UNCOVERED]


def test_a_subclass_that_answers_in_its_own_way_is_unknown() -> None:
    class Mine(Allow):
        def authorize(self, request: PolicyRequest) -> PolicyResult:
            raise AssertionError

    class Same(Allow):
        """Answers as Allow does."""

    class Says(Mine):
        def covers(self, agent: Agent, tool: Tool) -> bool:
            return False

    assert ids(clerk(Mine(("look",)))) == []
    assert ids(clerk(Same(("look",)))) == [UNCOVERED]
    assert ids(clerk(Says(("*",)))) == [UNCOVERED, UNCOVERED]


# ---- names ----


@pytest.mark.parametrize(
    "policy",
    [
        RequireApproval(("refund", "refnud")),
        Guarded((DenyTools(("refnud",)),), ALL),
        Guarded((OnlyFor(("refnud",), agents=("clerk",)),), ALL),
        ByTool({"refnud": Deny()}, otherwise=ALL),
        ByTool({"*": RequireApproval(("refnud",))}),
        Strictest((ALL, RequireApproval(("refnud",)))),
        ByEnvironment({"here": ALL, "there": Guarded((DenyTools(("refnud",)),), ALL)}),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_name_that_no_tool_has_is_an_error(policy: Any) -> None:
    (said,) = found(clerk(policy, environment="here"))
    assert said.startswith(UNKNOWN)
    assert "'refnud'" in said


def test_a_beginning_must_begin_some_tool() -> None:
    assert ids(clerk(RequireApproval(("ref*", "*")))) == []
    assert ids(clerk(RequireApproval(("pay_*",)))) == [UNKNOWN]


def test_a_policy_that_serves_two_agents_may_name_the_tools_of_both() -> None:
    shared = RequireApproval(("look", "refund"))
    one, two = Agent("one", "m", tools=(look,), policy=shared), Agent("two", "m", tools=(refund,), policy=shared)
    assert ids(one, two) == []
    assert ids(one) == [UNKNOWN]


# ---- what can't be used ----


class Raises(Part):
    def __init__(self, **errors: Exception) -> None:
        super().__init__(asked)
        self.errors = errors

    def covers(self, agent: Agent, tool: Tool) -> bool | None:
        raise self.errors.get("covers", AssertionError)

    def names(self) -> Iterable[str]:
        raise self.errors.get("names", AssertionError)


class AsyncCovers(Part):
    async def covers(self, agent: Agent, tool: Tool) -> bool:
        return True


class AsyncNames(Part):
    async def names(self) -> list[str]:
        return []


@pytest.mark.parametrize(
    "policy",
    [
        Allow,
        lambda request: None,
        Part(asked, "mine"),
        Part(asked, PolicyIdentity("mine", "1", {"a": {1}})),
        Raises(covers=ValueError("no")),
        Raises(names=ValueError("no")),
        AsyncCovers(asked),
        AsyncNames(asked),
    ],
    ids=lambda policy: getattr(policy, "__name__", type(policy).__name__),
)
def test_a_policy_that_cannot_be_used_is_an_error(policy: Any) -> None:
    assert ids(clerk(policy)) == [UNUSABLE]


# ---- evidence ----


def test_an_external_tool_without_a_reconciler_is_a_warning() -> None:
    @tool(effect=ToolEffect.EXTERNAL)
    def pay(bill: str) -> str:
        """Pay a bill."""
        raise AssertionError

    @tool(effect=ToolEffect.IDEMPOTENT)
    def note(text: str) -> str:
        """Note it."""
        raise AssertionError

    (message,) = messages_about([clerk(None, pay, note, look, refund)])
    assert (message.id, message.is_serious()) == ("cayu.W010", False)
    assert "'pay'" in message.msg


@pytest.mark.parametrize(
    "wrong", [Reconciler, Verifier(), "ledger"], ids=lambda value: getattr(value, "__name__", type(value).__name__)
)
def test_a_reconciler_of_another_kind_is_an_error(wrong: Any) -> None:
    made = tool(name="pay", effect=ToolEffect.EXTERNAL, reconciler=wrong)(lambda: "")
    assert ids(clerk(None, made)) == [WRONG_KIND]


def test_a_verifier_of_another_kind_is_an_error() -> None:
    wrong: Any = Reconciler()
    assert ids(clerk(None, tool(name="look", effect=ToolEffect.NONE, verifier=wrong)(lambda: ""))) == [WRONG_KIND]


def test_the_check_is_registered_and_reads_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cayu_runtime.checks.agents", lambda: {"clerk": clerk(Allow(("look",)))})
    said = [message for message in run_checks(tags=[Tags.compatibility]) if message.id == "cayu.E030"]
    assert len(said) == 1
    assert said[0].is_serious()


def test_the_demo_agents_pass() -> None:
    from cayu_project.demo import agents

    declared = [value for value in vars(agents).values() if isinstance(value, Agent)]
    assert declared
    assert found(*declared) == []
