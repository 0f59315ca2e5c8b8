"""A canary behind a reference, and one in its place: in no table, no log, no event (D9)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from pytest_django.fixtures import Settings

from cayu_runtime import Agent, Call, Reply, Secret, SecretUnavailable, ToolEffect, ToolResult, ToolSpec, registry, tool
from cayu_runtime.models import Session
from tests.machine import Counter, Gate, Machine, agent_of

pytestmark = pytest.mark.django_db(transaction=True)

CANARY = 'c4nary"&é-behind/a-reference'
SCHEMA = {"type": "object", "properties": {"token": {"x-secret": True}, "to": {"type": "string"}}}


class Keeps(Counter):
    """A counter with a secret field, which remembers what it was given."""

    def __init__(self, does: Any, effect: ToolEffect = ToolEffect.EXTERNAL) -> None:
        super().__init__("pay", effect)
        self.spec = ToolSpec("pay", "", SCHEMA, effect, timeout=10)
        self.given: list[Any] = []

        def run(ctx: Any, args: dict[str, Any]) -> Any:
            self.given.append(args["token"])
            return does(args["token"])

        self.does = lambda ctx, args: run(ctx, args)


def everything() -> str:
    """All rows of all tables as text, as they are and with their JSON escapes read."""
    said = []
    for model in apps.get_models():
        for row in model._default_manager.all():
            for field in model._meta.concrete_fields:
                value = getattr(row, field.attname)
                if isinstance(value, (bytes, memoryview)):
                    value = bytes(value).decode("utf-8", "replace")
                said.append(value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False))
                said.append(json.dumps(value, default=str))
    return "\n".join(said)


def forms(secret: str) -> list[str]:
    return [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]]


def nowhere(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, *secrets: str) -> None:
    out, err = capfd.readouterr()
    seen = "\n".join([everything(), out, err, caplog.text])
    for secret in secrets:
        for form in forms(secret):
            assert form not in seen


def raising(error: type[Exception]) -> Any:
    def fail(token: str) -> Any:
        raise error(f"401, {token} it was, in JSON {json.dumps(token)}, quoted {str.__str__(token)!r}")

    return fail


@pytest.mark.parametrize("effect", list(ToolEffect))
@pytest.mark.parametrize(
    "does",
    [
        lambda token: ToolResult("ok"),
        lambda token: ToolResult(f"used {token}", {"token": token, token: [token]}, ({"uri": token},)),
        lambda token: ToolResult(token * 20_000, {"a": token * 20_000}, ({"name": token, "body": token.encode()},)),
        lambda token: ToolResult(f"refused {token}", is_error=True),
        lambda token: token,
        raising(RuntimeError),
        raising(ValueError),
    ],
    ids=["silent", "echo", "large echo", "error", "no result", "raises", "raises again"],
)
def test_the_value_reaches_the_tool_and_nothing_else(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    does: Any,
    effect: ToolEffect,
) -> None:
    monkeypatch.setenv("CAYU_SECRET_LEDGER_TOKEN", CANARY)
    pay = Keeps(does, effect)
    call = Call("pay", {"to": "x", "token": {"$secret": "ledger-token"}})
    session = machine.start(agent_of(pay, policy=Gate(pay="require_approval"), rounds=[[call]]))
    (approval,) = machine.approvals(session)
    machine.decide(approval, "approve")
    machine.run(session)
    assert set(pay.given) == {CANARY}
    assert machine.calls(session)[0].arguments["token"] == {"$secret": "ledger-token"}
    nowhere(capfd, caplog, CANARY)


def test_a_secret_in_a_result_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAYU_SECRET_LEDGER_TOKEN", CANARY)
    pay = Keeps(lambda token: ToolResult(f"used {token}", {"token": token}))
    call = Call("pay", {"token": {"$secret": "ledger-token"}})
    session = machine.start(agent_of(pay, policy=Gate(), rounds=[[call]]))
    result = machine.calls(session)[0].result
    assert result["content"] == "used [secret ledger-token]"
    assert result["structured"] == {"token": "[secret ledger-token]"}


def test_a_function_gets_the_value_as_a_string(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAYU_SECRET_LEDGER_TOKEN__2", CANARY)
    given: list[Any] = []

    @tool(effect=ToolEffect.EXTERNAL)
    def pay(to: str, token: Secret, tip: Secret | None = None) -> str:
        given.extend([isinstance(token, str), base64.b64encode(token.encode()), tip])
        return "paid"

    call = Call("pay", {"to": "x", "token": {"$secret": "ledger-token", "version": "2"}})
    session = machine.start(agent_of(pay, policy=Gate(), rounds=[[call]]))
    assert session.state == "completed"
    assert given == [True, base64.b64encode(CANARY.encode()), None]


@pytest.mark.parametrize("effect", list(ToolEffect))
def test_a_missing_secret_means_that_nothing_was_done(machine: Machine, effect: ToolEffect) -> None:
    pay = Keeps(lambda token: ToolResult("ok"), effect)
    call = Call("pay", {"token": {"$secret": "nobody-set-this"}})
    session = machine.start(agent_of(pay, policy=Gate(), rounds=[[call]]))
    (row,) = machine.calls(session)
    assert (pay.given, row.state) == ([], "failed")
    if effect is not ToolEffect.NONE:
        assert machine.effect(session).state == "rejected"
    assert (row.result["executed"], row.result["outcome_unknown"]) == (False, False)
    assert row.result["content"] == (
        "The secret 'nobody-set-this' is not available: CAYU_SECRET_NOBODY_SET_THIS is not set in the environment of "
        "the workers. Nothing was done."
    )


class Vault:
    """A resolver that says what it was asked, and fails as its name asks for."""

    asked: list[tuple[str, str, str]] = []

    def resolve(self, tenant: str, name: str, version: str) -> str:
        assert not connection.in_atomic_block
        self.asked.append((tenant, name, version))
        if name == "broken":
            raise RuntimeError(f"{CANARY} leaked by the vault's client")
        if name == "none":
            raise SecretUnavailable("The vault has no such entry.")
        return "abc" if name == "short" else CANARY


@pytest.mark.parametrize(
    "name, said",
    [
        ("broken", "The secret 'broken' can't be read (RuntimeError). Nothing was done."),
        ("none", "The secret 'none' is not available: The vault has no such entry. Nothing was done."),
        ("short", "The secret 'short' is shorter than 4 characters, so it could not be masked. Nothing was done."),
    ],
)
def test_a_resolver_of_ones_own_and_how_it_may_fail(
    machine: Machine, settings: Settings, name: str, said: str, capfd: Any, caplog: Any
) -> None:
    settings.CAYU_SECRETS = "tests.db.test_secret_references.Vault"
    pay = Keeps(lambda token: ToolResult("ok"))
    call = Call("pay", {"token": {"$secret": name, "version": "3"}})
    session = machine.start(agent_of(pay, policy=Gate(), rounds=[[call]]))
    assert Vault.asked[-1] == (str(machine.tenant.id), name, "3")
    assert pay.given == []
    assert machine.calls(session)[0].result["content"] == said
    nowhere(capfd, caplog, CANARY)


def model_that_says(*replies: Reply) -> Agent:
    left = list(replies)
    pay = Keeps(lambda token: ToolResult("ok"))
    agent = Agent(f"careless-{id(left)}", lambda turn: left.pop(0), tools=(pay,), policy=Gate())
    registry.register_for_test(agent)
    return agent


def test_a_raw_value_of_a_model_is_stored_nowhere(
    machine: Machine, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    call = Call("pay", {"to": "x", "token": CANARY})
    agent = model_that_says(Reply(f"I use {CANARY} now.", (call,)), Reply("It was refused."))
    session = machine.start(agent)
    (row,) = machine.calls(session)
    assert (session.state, row.state, row.reason) == ("completed", "blocked", "invalid")
    assert "takes only a reference to a secret" in row.result["reason"]
    assert row.arguments["to"] == "x"
    nowhere(capfd, caplog, CANARY)


def test_a_session_with_a_masked_message_goes_on_after_a_crash(machine: Machine) -> None:
    agent = model_that_says(Reply(calls=(Call("pay", {"token": CANARY}),)), Reply("Done."))
    session = machine.start(agent)
    said = machine.transcript(session)[1]["parts"]
    assert said[0]["part_kind"] == "tool-call"
    assert CANARY not in json.dumps(said)
    assert Session.objects.get(pk=session.pk).state == "completed"
