"""Answers of a model with ids and names that no database takes, and secrets under wrong names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cayu_runtime import Agent, Call, Reply, Tool, ToolEffect, ToolResult, ToolSpec, registry
from cayu_runtime.models import Event, Session
from tests.db.test_secret_references import everything
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)

RAW = "hunter2-very-secret"
PIN = 83746512


ODD_IDS = {"nul": "a\0b", "half": "a\ud800b", "other half": "\udfff", "overlong": "x" * 201, "repeated": "fine"}


@pytest.mark.parametrize("call_id", ODD_IDS.values(), ids=ODD_IDS)
def test_an_id_that_cannot_be_kept_is_an_invalid_answer(machine: Machine, call_id: str) -> None:
    look = Counter("look", ToolEffect.NONE)
    rounds = [[Call("look", {"to": "x"}, call_id="fine"), Call("look", {"to": "y"}, call_id=call_id)]]
    session = machine.start(agent_of(look, policy=Gate(), rounds=rounds))
    assert (session.state, session.interruption) == ("interrupted", "model_unavailable")
    assert (look.count, machine.calls(session), session.steps) == (0, [], 0)
    event = Event.objects.get(session=session, type="model.error")
    assert event.payload["error"] == "invalid_answer"


@pytest.mark.parametrize("name", ["lo\0ok", "lo\ud800ok", "\0", "x" * 500], ids=["nul", "half", "only nul", "long"])
def test_a_tool_name_that_cannot_be_kept_is_blocked_as_invalid(machine: Machine, name: str) -> None:
    look = Counter("look", ToolEffect.NONE)
    session = machine.start(agent_of(look, policy=Gate(), rounds=[[Call(name, {"to": "x\0"})]]))
    (call,) = machine.calls(session)
    assert (session.state, call.state, call.reason) == ("completed", "blocked", "invalid")
    assert "\0" not in call.tool
    assert call.tool.encode()  # no half character
    assert look.count == 0


class Login(Tool):
    spec = ToolSpec("login", "", {}, ToolEffect.EXTERNAL)
    fields: Mapping[str, Any] = {"user": {"type": "string"}, "token": {"x-secret": True}}

    @property
    def schema(self) -> Mapping[str, Any]:
        auth = {"type": "object", "properties": self.fields, "required": ["token"]}
        return {"type": "object", "properties": {"auth": {"anyOf": [auth, {"type": "null"}]}}}

    def run(self, ctx: Any, args: Any) -> ToolResult:
        raise AssertionError("nothing of this may run")


@pytest.mark.parametrize(
    "call",
    [
        Call("login", {"auth": {"user": "ann", "tokn": RAW}}),
        Call("login", {"auth": {"user": "ann", "token": {"$secret": "a"}, "tokn": [RAW, PIN]}}),
        Call("login", {"auth": {"token": PIN, "user": {"token": RAW}}}),
        Call("login", {"auth": RAW}),
        Call("log_in", {"auth": {"token": RAW, "pin": PIN}}),
    ],
    ids=["misspelt", "beside the right one", "a number", "in its object's place", "another tool"],
)
def test_a_secret_under_a_wrong_name_is_stored_nowhere(machine: Machine, call: Call) -> None:
    told = json.dumps(dict(call.arguments))
    left = [Reply(f"I use {told}.", (call,)), Reply("It was refused.")]
    agent = Agent("misspelling", lambda turn: left.pop(0), tools=(Login(),), policy=Gate(login="require_approval"))
    registry.register_for_test(agent)
    session = machine.start(agent)
    (row,) = machine.calls(session)
    assert (Session.objects.get(pk=session.pk).state, row.state, row.reason) == ("completed", "blocked", "invalid")
    kept = everything()
    assert RAW not in kept
    assert str(PIN) not in kept
    assert session.agent in kept
