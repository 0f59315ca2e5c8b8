"""A real SDK over real HTTP: whatever the provider does, the session's rows say what happened, and no tool runs twice.

Each ending is checked for whole answers and for streamed ones, where text is told while it comes.
"""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from cayu_runtime import Agent, ModelError, PolicyDecision, TextHint, Tool, ToolEffect, registry
from cayu_runtime.core import backoff, clock, hints, lease, model, results
from cayu_runtime.models import Event, Session
from cayu_runtime.providers import vendors
from cayu_runtime.services.session import interrupt_session
from tests.conformance.conftest import KEY
from tests.conformance.openai_server import Server, calls, hang_up, nonsense, responses, silence, status, text
from tests.machine import Counter, Gate, Machine

pytestmark = pytest.mark.conformance

MODEL = "openai-chat:first"
PAY = ("move_money", '{"to": "x"}')


def agent_of(*tools: Tool, model: str | tuple[str, ...] = MODEL, gated: bool = False) -> Agent:
    policy = Gate(move_money=PolicyDecision.REQUIRE_APPROVAL.value) if gated else Gate()
    agent = Agent("over-http", model, "Be brief.", tools, policy)
    registry.register_for_test(agent)
    return agent


def errors(session: Session) -> list[dict[str, Any]]:
    rows = Event.objects.filter(session=session, type="model.error").order_by("seq")
    return [event.payload for event in rows]


def completed(session: Session) -> list[dict[str, Any]]:
    rows = Event.objects.filter(session=session, type="model.completed").order_by("seq")
    return [event.payload for event in rows]


def waits(session: Session) -> float:
    """Seconds until the session is tried again."""
    assert session.state == "pending"
    assert session.runnable_at is not None
    return (session.runnable_at - session.updated_at).total_seconds()


def run_when_due(machine: Machine, session: Session, worker: str = "worker-1") -> Session:
    assert session.runnable_at is not None
    with clock.shifted(session.runnable_at - clock.now() + timedelta(seconds=1)):
        return machine.run(session, worker)


# ---- what goes well ----


def test_a_tool_is_called_and_its_result_is_told(machine: Machine, server: Server, told: list[TextHint]) -> None:
    tool = Counter()
    server.will(calls(PAY), text("It is done."))
    session = machine.start(agent_of(tool))
    assert (session.state, tool.count, machine.last_text(session)) == ("completed", 1, "It is done.")
    first, second = server.requests
    assert first["messages"][0] == {"role": "system", "content": "Be brief."}
    assert first["tools"][0]["function"]["name"] == "move_money"
    assert second["messages"][-1]["tool_call_id"] == "call_0"
    assert '"status":"completed"' in second["messages"][-1]["content"]


def test_each_step_says_which_model_gave_it_and_what_it_used(
    machine: Machine, server: Server, told: list[TextHint]
) -> None:
    server.will(calls(PAY), text("Done."))
    session = machine.start(agent_of(Counter()))
    for said in completed(session):
        assert (said["model"], said["usage"]) == (MODEL, {"input_tokens": 11, "output_tokens": 7})
    assert machine.transcript(session)[-1]["usage"]["output_tokens"] == 7


def test_text_is_told_while_it_comes_and_only_the_transcript_keeps_it(machine: Machine, server: Server) -> None:
    heard: list[TextHint] = []
    hints.listen(heard.append)
    try:
        server.will(text("Half and half."))
        session = machine.start(agent_of())
    finally:
        hints.listen(None)
    assert [(hint.offset, hint.text, hint.model, hint.step) for hint in heard] == [
        (0, "Half", MODEL, 0),
        (4, " and half.", MODEL, 0),
    ]
    assert {(hint.tenant, hint.session) for hint in heard} == {(machine.tenant.id, session.id)}
    assert machine.last_text(session) == "Half and half."
    assert server.requests[0]["stream"] is True


def test_a_listener_that_fails_costs_hints_and_nothing_else(machine: Machine, server: Server) -> None:
    def broken(hint: TextHint) -> None:
        raise OSError("nobody is there")

    hints.listen(broken)
    try:
        server.will(text("All the same."))
        session = machine.start(agent_of())
    finally:
        hints.listen(None)
    assert (session.state, machine.last_text(session)) == ("completed", "All the same.")


def test_encrypted_thinking_goes_back_to_the_model_from_the_transcript(machine: Machine, server: Server) -> None:
    server.will(responses("gAAAA-encrypted-thinking", "Four."), responses("gAAAA-more", "Five."))
    agent = agent_of(model="openai:gpt-5")
    session = machine.start(agent)
    assert (session.state, machine.last_text(session)) == ("completed", "Four.")
    model.ask(agent, results.as_history([*machine.transcript(session), results.user_message("more", clock.now())]))
    sent = [item for item in server.requests[1]["input"] if item.get("type") == "reasoning"]
    assert [item["encrypted_content"] for item in sent] == ["gAAAA-encrypted-thinking"]


def test_an_incomplete_answer_of_the_newer_interface_is_cut_off(machine: Machine, server: Server) -> None:
    server.will(responses("gAAAA-encrypted-thinking", "Fo", "incomplete"))
    session = machine.start(agent_of(model="openai:gpt-5"))
    assert (session.interruption, errors(session)[0]["error"], session.messages) == ("model_unavailable", "cut_off", 1)


# ---- what is tried again ----


@pytest.mark.parametrize(
    "failure, kind",
    [
        (status(429, "slow down"), "rate_limited"),
        (status(500), "server_error"),
        (status(503), "unavailable"),
        (hang_up, "connection_failed"),
        (nonsense, "invalid_answer"),
        (text(""), "empty"),
        (text(None), "empty"),
    ],
    ids=["429", "500", "503", "hang-up", "nonsense", "empty", "nothing"],
)
def test_a_provider_that_fails_once_is_asked_again_later(
    machine: Machine, server: Server, told: list[TextHint], failure: Any, kind: str
) -> None:
    server.will(failure)
    session = machine.start(agent_of())
    assert (session.state, session.model_failures, session.messages) == ("pending", 1, 1)
    assert 2 <= waits(session) <= 2.5
    said = errors(session)[0]
    assert (said["error"], said["tries"], said["models"][0]["model"]) == (kind, 1, MODEL)
    assert said["again_in"] == pytest.approx(waits(session), abs=0.1)
    assert len(server.requests) == 1, "the SDK retried by itself"
    machine.run(session)
    assert len(server.requests) == 1, "asked before it was due"
    server.will(text("Here I am."))
    run_when_due(machine, session)
    assert (session.state, session.model_failures) == ("completed", 0)
    assert machine.last_text(session) == "Here I am."


def test_a_stream_that_ends_without_an_end_is_no_answer(machine: Machine, server: Server) -> None:
    hints.listen(lambda hint: None)
    try:
        server.will(text("Half of a", finish=None))
        session = machine.start(agent_of())
    finally:
        hints.listen(None)
    assert (session.state, session.messages, errors(session)[0]["error"]) == ("pending", 1, "connection_failed")


def test_a_model_that_is_silent_is_given_up_at_the_deadline(
    machine: Machine, server: Server, told: list[TextHint], settings: Settings
) -> None:
    settings.CAYU_MODEL_TIMEOUT = 1
    server.will(silence)
    session = machine.start(agent_of())
    assert (session.state, errors(session)[0]["error"]) == ("pending", "timeout")


def test_a_refused_connection_is_tried_again(machine: Machine, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    session = machine.start(agent_of())
    assert (session.state, errors(session)[0]["error"]) == ("pending", "connection_failed")


@pytest.mark.parametrize("asked, least, most", [("30", 30, 37.5), ("1", 2, 2.5), ("86400", 300, 300), ("soon", 2, 2.5)])
def test_retry_after_is_honoured_and_capped(
    machine: Machine, server: Server, asked: str, least: float, most: float
) -> None:
    server.will(status(429, "slow down", Retry_After=asked))
    session = machine.start(agent_of())
    assert least <= waits(session) <= most


def test_after_a_handful_of_tries_the_session_says_that_no_model_answers(machine: Machine, server: Server) -> None:
    server.will(*[status(500, "it broke")] * 5)
    session = machine.start(agent_of())
    waited = []
    while session.state == "pending":
        waited.append(waits(session))
        run_when_due(machine, session)
    assert (session.state, session.interruption, session.stopped_by) == (
        "interrupted",
        "model_unavailable",
        "model_unavailable",
    )
    assert [said["tries"] for said in errors(session)] == [1, 2, 3, 4, 5]
    assert "again_in" not in errors(session)[-1]
    assert "it broke" in errors(session)[-1]["message"]
    assert waited == sorted(waited)
    assert (len(server.requests), session.model_failures, session.messages) == (5, 0, 1)


def test_only_the_model_step_is_retried_after_an_approved_tool_ran(
    machine: Machine, server: Server, told: list[TextHint]
) -> None:  # B8
    tool = Counter()
    server.will(calls(PAY), status(500), hang_up, text("It is paid."))
    session = machine.start(agent_of(tool, gated=True))
    machine.decide(machine.approvals(session)[0], "approve")
    machine.run(session)
    assert (session.state, session.model_failures, tool.count) == ("pending", 1, 1)
    run_when_due(machine, session)
    assert (session.state, session.model_failures, tool.count) == ("pending", 2, 1)
    run_when_due(machine, session)
    assert (session.state, tool.count, machine.last_text(session)) == ("completed", 1, "It is paid.")
    assert machine.effect(session).state == "completed"
    results = [m for m in server.requests[-1]["messages"] if m["role"] == "tool"]
    assert len(results) == 1


def test_a_worker_that_dies_between_back_off_and_retry_forgets_nothing(machine: Machine, server: Server) -> None:
    server.will(status(500))
    session = machine.start(agent_of())
    assert session.runnable_at is not None
    due = session.runnable_at - clock.now() + timedelta(seconds=1)
    with clock.shifted(due):
        assert lease.claim(session.pk, "worker-1") is not None  # and this worker is gone
    with clock.shifted(due + lease.lease_length()):
        server.will(status(500))
        machine.run(session, "worker-2")
    assert (session.state, session.model_failures, errors(session)[-1]["tries"]) == ("pending", 2, 2)
    server.will(text("Back."))
    run_when_due(machine, session, "worker-3")
    assert (session.state, session.model_failures) == ("completed", 0)


def test_a_stop_during_the_back_off_ends_it(machine: Machine, server: Server) -> None:
    server.will(status(500))
    session = machine.start(agent_of())
    interrupt_session(machine.tenant, machine.alice, session.session_id)
    session.refresh_from_db()
    assert (session.state, session.interruption) == ("interrupted", "operator_requested")


def test_a_stop_while_the_model_fails_is_obeyed(machine: Machine, server: Server) -> None:
    session = machine.start(agent_of(), run=False)
    held = machine.claim(session)
    interrupt_session(machine.tenant, machine.alice, session.session_id)
    backoff.record_failure(held, model_failed(retryable=True))
    session.refresh_from_db()
    assert (session.state, session.interruption) == ("interrupted", "operator_requested")
    assert len(errors(session)) == 1


def model_failed(*, retryable: bool) -> Any:
    return model.ModelFailed([(MODEL, ModelError("server_error", "no", retryable=retryable))])


# ---- what no retry heals ----


@pytest.mark.parametrize(
    "failure, kind",
    [
        (status(401, f"Incorrect API key provided: {KEY}"), "not_authorised"),
        (status(403), "not_authorised"),
        (status(400), "rejected"),
        (status(404, "no such model"), "unknown_model"),
        (status(402), "quota_exceeded"),
        (text("The answer is 4", finish="length"), "cut_off"),
        (calls(PAY, finish="length"), "cut_off"),
        (text("I", finish="content_filter"), "refused"),
        (text(None, refusal="I will not."), "refused"),
    ],
    ids=["401", "403", "400", "404", "402", "cut text", "cut calls", "filter", "refusal"],
)
def test_what_no_retry_heals_stops_the_session_at_once(
    machine: Machine, server: Server, told: list[TextHint], failure: Any, kind: str
) -> None:
    tool = Counter()
    server.will(failure)
    session = machine.start(agent_of(tool))
    assert (session.state, session.interruption) == ("interrupted", "model_unavailable")
    assert (errors(session)[0]["error"], session.messages, tool.count) == (kind, 1, 0)
    assert len(server.requests) == 1
    assert KEY not in str(errors(session))


def test_a_cut_off_answer_says_what_it_cost(machine: Machine, server: Server, told: list[TextHint]) -> None:
    server.will(text("The answer is 4", finish="length"))
    session = machine.start(agent_of())
    assert errors(session)[0]["models"][0]["usage"] == {"input_tokens": 11, "output_tokens": 7}


@pytest.mark.parametrize("arguments", ['{"to": ', "[1]", "go", '{"to": 9007199254740993}'])
def test_malformed_arguments_are_told_to_the_model(
    machine: Machine, server: Server, told: list[TextHint], arguments: str
) -> None:
    tool = Counter()
    server.will(calls(("move_money", arguments)), text("I wrote nonsense."))
    session = machine.start(agent_of(tool))
    call = machine.calls(session)[0]
    assert (session.state, call.state, call.reason, tool.count) == ("completed", "blocked", "invalid", 0)
    assert '"status":"blocked"' in server.requests[1]["messages"][-1]["content"]


def test_text_stays_as_it_is_and_half_a_character_is_written_out(
    machine: Machine, server: Server, told: list[TextHint]
) -> None:
    server.will(text("a\0b\ud800c"))
    session = machine.start(agent_of())
    assert (session.state, machine.last_text(session)) == ("completed", "a\0b\\ud800c")


# ---- several models ----


@pytest.mark.parametrize("failure", [status(429), status(500), status(401), status(404), hang_up, text("")])
def test_the_next_model_is_asked_when_one_is_unavailable(
    machine: Machine, server: Server, told: list[TextHint], failure: Any
) -> None:
    server.will(failure, text("Second."))
    session = machine.start(agent_of(model=("openai-chat:first", "openai-chat:second")))
    assert (session.state, machine.last_text(session)) == ("completed", "Second.")
    assert [request["model"] for request in server.requests] == ["first", "second"]
    said = completed(session)[0]
    assert (said["model"], said["failed_before"][0]["model"]) == ("openai-chat:second", "openai-chat:first")
    assert session.model_failures == 0


def test_a_refusal_is_an_answer_and_no_other_model_is_asked(machine: Machine, server: Server) -> None:
    server.will(text(None, refusal="I will not."), text("I will."))
    session = machine.start(agent_of(model=("openai-chat:first", "openai-chat:second")))
    assert (session.interruption, len(server.requests)) == ("model_unavailable", 1)


def test_one_model_that_may_come_back_is_enough_to_try_again(machine: Machine, server: Server) -> None:
    server.will(status(401), status(429, Retry_After="20"))
    session = machine.start(agent_of(model=("openai-chat:first", "openai-chat:second")))
    assert 20 <= waits(session) <= 25
    assert [tried["error"] for tried in errors(session)[0]["models"]] == ["not_authorised", "rate_limited"]
    server.will(status(401), text("Back."))
    run_when_due(machine, session)
    assert session.state == "completed"


# ---- what is not there ----


@pytest.mark.parametrize(
    "name, kind, sentence",
    [
        ("anthropic:claude-opus-4", "not_installed", "pip install 'cayu-on-django[anthropic]'"),
        ("nobody:model", "misconfigured", "nobody:model"),
        ("gpt-5", "unknown_model", "prefix:name"),
        ("", "misconfigured", "CAYU_MODEL"),
    ],
)
def test_a_model_that_can_not_be_asked_says_what_to_do(
    machine: Machine, server: Server, monkeypatch: pytest.MonkeyPatch, name: str, kind: str, sentence: str
) -> None:
    monkeypatch.setattr(vendors, "find_spec", lambda module: None)
    session = machine.start(agent_of(model=name))
    assert (session.interruption, errors(session)[0]["error"]) == ("model_unavailable", kind)
    assert sentence in errors(session)[0]["message"]


def test_a_missing_key_says_which(machine: Machine, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    session = machine.start(agent_of())
    assert errors(session)[0]["error"] == "no_key"
    assert "OPENAI_API_KEY" in errors(session)[0]["message"]


def test_a_tool_without_effect_is_read_again_by_nobody(machine: Machine, server: Server) -> None:
    tool = Counter("read", ToolEffect.NONE)
    server.will(calls(("read", "{}")), status(500), text("Read."))
    session = machine.start(agent_of(tool))
    run_when_due(machine, session)
    assert (session.state, tool.count) == ("completed", 1)
