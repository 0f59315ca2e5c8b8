"""Models without a network: what a name lacks, what an exception means, what a rule's model says and costs."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import httpx
import pytest
from django.core.checks.registry import registry
from pydantic_ai import exceptions as library
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from cayu_runtime import Agent, Call, ModelError, Reply, Turn, checks
from cayu_runtime.core import backoff, ids, model, results
from cayu_runtime.providers import adapter, vendors
from cayu_runtime.providers.rules import rule_model, turn_of
from cayu_runtime.providers.scripted import scripted_model

pytestmark = pytest.mark.unit

TOKEN = "ErUBCkYIBxgCIkD9f/signature+of+thinking=="


def told(text: str) -> ModelMessage:
    from datetime import UTC, datetime

    return results.as_history([results.user_message(text, datetime.now(UTC))])[0]


def made_by(monkeypatch: pytest.MonkeyPatch, answer: Any, **kwargs: Any) -> Agent:
    """An agent whose model is `answer`, under a name."""
    made = FunctionModel(answer, **kwargs)
    monkeypatch.setattr(model, "named_model", lambda name: made)
    return Agent("a", "test:it")


# ---- what a name lacks ----


@pytest.mark.parametrize(
    "name, environment, kind, fix",
    [
        ("", {}, "misconfigured", "CAYU_MODEL"),
        ("gpt-5", {}, "unknown_model", "openai:gpt-5"),
        ("openai:", {}, "unknown_model", "prefix:name"),
        ("openai:gpt-5", {}, "no_key", "set OPENAI_API_KEY"),
        ("anthropic:claude", {"ANTHROPIC_API_KEY": ""}, "no_key", "set ANTHROPIC_API_KEY"),
        ("google:gemini", {}, "no_key", "GOOGLE_API_KEY or GEMINI_API_KEY"),
    ],
)
def test_a_lack_is_one_sentence_that_says_the_fix(
    monkeypatch: pytest.MonkeyPatch, name: str, environment: dict[str, str], kind: str, fix: str
) -> None:
    monkeypatch.setattr(vendors, "_installed", lambda module: True)
    lack = vendors.missing(name, environment)
    assert lack is not None
    assert (lack.kind, fix in str(lack), str(lack).count(". ")) == (kind, True, 0)


def test_a_missing_sdk_is_named_before_a_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendors, "find_spec", lambda module: None)
    assert "pip install 'cayu-on-django[google]'" in str(vendors.missing("google:gemini", {}))
    assert "pip install 'pydantic-ai-slim[groq]'" in str(vendors.missing("groq:llama", {}))


@pytest.mark.parametrize("name", ["openai:gpt-5", "openai-chat:local"])
def test_a_key_or_an_address_of_ones_own_is_enough(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(vendors, "_installed", lambda module: True)
    assert vendors.missing(name, {"OPENAI_API_KEY": "k"}) is None
    assert vendors.missing(name, {"OPENAI_BASE_URL": "http://127.0.0.1:1"}) is None
    assert vendors.missing("cerebras:x", {}) is None, "the library will say"


def test_every_vendor_names_a_provider_that_the_library_has() -> None:
    from pydantic_ai.providers import infer_provider_class

    for prefix in vendors.VENDORS:
        with suppress(ImportError):  # its SDK need not be here; an unknown prefix is a ValueError
            infer_provider_class(prefix)


def test_the_check_at_start_names_agent_and_fix(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    agents = {
        "clerk": Agent("clerk", ("openai:gpt-5", "local:x")),
        "rule": Agent("rule", lambda turn: Reply("hello")),
        "nameless": Agent("nameless", ""),
    }
    monkeypatch.setattr(checks, "agents", lambda: agents)
    monkeypatch.setattr(vendors, "_installed", lambda module: module != "openai")
    settings.CAYU_PROVIDERS = {"local": "some.where"}
    settings.CAYU_MODEL = ""
    assert checks.check_models in registry.registered_checks
    found = list(checks.check_models())
    assert [(w.id, w.level) for w in found] == [("cayu.W011", 30)] * 2
    assert "'clerk'" in found[0].msg
    assert found[0].hint == "Run pip install 'cayu-on-django[openai]'."
    assert "'nameless'" in found[1].msg
    settings.CAYU_PROCESS = "web"
    assert list(checks.check_models()) == []


def test_an_agent_takes_names_in_their_order() -> None:
    assert Agent("a", ("x:1", "y:2")).models("z:3") == ("x:1", "y:2")
    assert Agent("a", "").models("z:3") == ("z:3",)
    for wrong in ((), ("x:1", ""), (1,)):
        with pytest.raises(ValueError, match="tuple of models"):
            Agent("a", wrong)  # type: ignore[arg-type]


# ---- what an exception means ----


@pytest.mark.parametrize(
    "error, kind, retryable",
    [
        (httpx.ReadError("reset"), "connection_failed", True),
        (ConnectionResetError("reset"), "connection_failed", True),
        (TimeoutError(), "timeout", True),
        (library.ModelHTTPError(408, "m"), "provider_error", True),
        (library.ModelHTTPError(410, "m"), "rejected", False),
        (library.ModelAPIError("m", "odd"), "provider_error", True),
        (library.ContentFilterError("no"), "refused", False),
        (library.IncompleteToolCall("half"), "cut_off", False),
        (library.UserError("wrong"), "misconfigured", False),
        (ZeroDivisionError("a fault of the program"), "ZeroDivisionError", False),
    ],
)
def test_every_exception_has_a_kind(error: Exception, kind: str, retryable: bool) -> None:
    made = adapter.typed(error, 3)
    assert (made.kind, made.retryable) == (kind, retryable)
    assert made.message


def test_a_provider_of_ones_own_may_say_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelError("closed", "Closed until nine.", retryable=True, retry_after=60)

    with pytest.raises(model.ModelFailed) as failed:
        model.ask(made_by(monkeypatch, answer), [told("hi")])
    assert (failed.value.kind, failed.value.retryable, failed.value.retry_after) == ("closed", True, 60)


def test_an_error_is_masked_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "short")
    failed = model.ModelFailed([("x:1", ModelError("rejected", "short " * 10 + "https://me:pw@host " + "x y" * 9000))])
    assert "short" not in failed.message
    assert "me:pw" not in failed.message
    assert len(str(failed.tried)) < 1500


@pytest.mark.parametrize("state", ["suspended", "interrupted"])
def test_an_answer_that_is_not_complete_is_none(monkeypatch: pytest.MonkeyPatch, state: Any) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("Half of a")], state=state)

    with pytest.raises(model.ModelFailed) as failed:
        model.ask(made_by(monkeypatch, answer), [told("hi")])
    assert (failed.value.kind, failed.value.retryable) == ("unfinished", False)


def test_thinking_alone_is_an_empty_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ThinkingPart("hm"), TextPart("  ")], usage=RequestUsage(output_tokens=3))

    with pytest.raises(model.ModelFailed) as failed:
        model.ask(made_by(monkeypatch, answer), [told("hi")])
    assert (failed.value.kind, failed.value.retryable) == ("empty", True)
    assert failed.value.tried[0]["usage"]["output_tokens"] == 3


# ---- what is kept ----


def test_thinking_signatures_survive_the_transcript(monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    said = ModelResponse(
        parts=[
            ThinkingPart("Let me see.", signature=TOKEN, provider_name="anthropic"),
            ThinkingPart("", id="redacted_thinking", signature=TOKEN[::-1], provider_name="anthropic"),
            ToolCallPart("pay", '{"to": ', tool_call_id="toolu_1", provider_details={"thought_signature": TOKEN}),
            ToolCallPart("pay", {"to": None, "list": [None, {"a": None}]}, tool_call_id="toolu_2"),
        ],
        model_name="claude",
        provider_name="anthropic",
        usage=RequestUsage(input_tokens=5, output_tokens=6, cache_read_tokens=4),
    )
    step = model.ask(made_by(monkeypatch, lambda messages, info: said), [told("hi")])
    stored = json.loads(json.dumps(step.body))
    back = results.as_history([stored])[0]
    assert isinstance(back, ModelResponse)
    assert back.parts == said.parts
    assert (back.provider_name, back.usage.cache_read_tokens) == ("anthropic", 4)
    assert step.said["usage"] == {"input_tokens": 5, "output_tokens": 6, "cache_read_tokens": 4}
    assert step.calls[0].arguments == '{"to": '


def test_text_of_a_function_model_is_told_when_it_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> Any:
        yield "One "
        yield "two."

    def whole(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("whole")])

    heard: list[tuple[str, int, str]] = []
    agent = made_by(monkeypatch, None, stream_function=stream)
    step = model.ask(agent, [told("hi")], lambda *hint: heard.append(hint))
    assert heard == [("test:it", 0, "One "), ("test:it", 4, "two.")]
    assert step.body["parts"][0]["content"] == "One two."
    step = model.ask(made_by(monkeypatch, whole), [told("hi")], lambda *hint: heard.append(hint))
    assert (len(heard), step.body["parts"][0]["content"]) == (2, "whole")


# ---- rules and scripts ----


def test_a_rule_sees_the_latest_message_and_what_came_since(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Turn] = []

    def rule(turn: Turn) -> Reply:
        seen.append(turn)
        return Reply("Working.", (Call("read", {"n": len(seen)}),))

    agent = Agent("a", rule)
    history = [told("first"), told("go on please")]
    step = model.ask(agent, history)
    assert (seen[0].message, seen[0].outcomes) == ("go on please", ())
    assert step.said == {"model": "rule:rule", "usage": {"input_tokens": 3, "output_tokens": 3}}
    assert step.body["parts"][1]["tool_call_id"] == "call_2_0"
    assert turn_of([]) == Turn("")


def test_a_rule_that_says_nothing_is_an_error_and_no_answer() -> None:
    with pytest.raises(model.ModelFailed) as failed:
        model.ask(Agent("a", lambda turn: Reply()), [told("hi")])
    assert (failed.value.kind, failed.value.retryable) == ("empty", False)


def test_a_rule_that_hangs_is_left_behind_and_the_next_one_answers(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.CAYU_MODEL_TIMEOUT = 0.1
    monkeypatch.setattr(model, "GRACE_SECONDS", 0.1)
    hold = threading.Event()

    def hangs(turn: Turn) -> Reply:
        hold.wait(30)
        return Reply("late")

    with pytest.raises(model.ModelFailed) as failed:
        model.ask(Agent("a", hangs), [told("hi")])
    assert (failed.value.kind, failed.value.retryable) == ("timeout", True)
    settings.CAYU_MODEL_TIMEOUT = 20
    step = model.ask(Agent("b", lambda turn: Reply("there")), [told("hi")])
    hold.set()
    assert step.body["parts"][0]["content"] == "there"


def test_a_script_goes_on_where_the_transcript_is_and_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scripted_model([Reply("one"), Reply("two")])
    monkeypatch.setattr(model, "named_model", lambda name: made)
    agent, history = Agent("a", "scripted:x"), [told("hi")]
    for wanted in ("one", "two"):
        step = model.ask(agent, history)
        assert step.body["parts"][0]["content"] == wanted
        history.append(step.message)
    with pytest.raises(model.ModelFailed, match="The script has 2 steps; step 3 was asked for"):
        model.ask(agent, history)


def test_one_rule_has_one_model() -> None:
    def rule(turn: Turn) -> Reply:
        return Reply("x")

    assert rule_model(rule) is rule_model(rule)


# ---- back-off ----


def test_waits_grow_are_spread_and_stay_below_the_cap() -> None:
    for _ in range(50):
        session = ids.new_id()
        waited = [backoff.seconds_to_wait(session, tries, None) for tries in range(1, backoff.MAX_TRIES)]
        assert waited == sorted(waited)
        assert all(base <= wait < base * 1.25 for base, wait in zip(backoff.WAITS, waited, strict=True))
        assert 50 <= backoff.seconds_to_wait(session, 1, 50) < 62.5
        assert backoff.seconds_to_wait(session, 4, 9e9) == backoff.LONGEST_WAIT
