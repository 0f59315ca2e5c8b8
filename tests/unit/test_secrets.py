"""Fields that hold secrets: marked in a schema, given by reference, never by value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from cayu_runtime import Secret, Tool, ToolEffect, ToolSpec, tool
from cayu_runtime.contracts import EnvironmentSecrets, SecretUnavailable, SecretValue
from cayu_runtime.core import secrets
from cayu_runtime.core.judgement import action_digests, schema_digest
from tests.unit.judging import judged

RAW = "sk-live-canary"
REFERENCE = {"$secret": "ledger-token", "version": "2"}
TOKEN = {"x-secret": True, "description": "Opens the ledger."}


def marked(**properties: Any) -> Tool:
    return Tool(ToolSpec("pay", "", {"type": "object", "properties": properties, "additionalProperties": False}))


class Account(BaseModel):
    number: str
    token: Secret


@tool(effect=ToolEffect.EXTERNAL)
def by_type(to: str, token: Secret, account: Account | None = None, other: Secret | None = None) -> str:
    """Pays."""
    assert isinstance(token, str)
    return "paid"


def test_what_the_model_is_shown_is_the_schema_of_a_reference() -> None:
    for which in (marked(token=TOKEN), by_type):
        shown = which.schema["properties"]["token"]
        assert shown["x-secret"] is True
        assert shown["required"] == ["$secret"]
    assert marked(token=TOKEN).schema["properties"]["token"]["description"] == "Opens the ledger."


@pytest.mark.parametrize("which", [marked(token=TOKEN, to={"type": "string"}), by_type], ids=["class", "function"])
def test_a_reference_is_accepted_and_is_what_is_digested(which: Tool) -> None:
    answer = judged(which, {"to": "x", "token": REFERENCE})
    assert not answer.problem
    assert answer.arguments["token"] == REFERENCE


@pytest.mark.parametrize("raw", [RAW, {"$secret": RAW + "!"}, {"$secret": "a", "value": RAW}, [RAW], {"value": RAW}])
@pytest.mark.parametrize("as_text", [True, False], ids=["text", "object"])
@pytest.mark.parametrize("which", [marked(token=TOKEN, to={"type": "string"}), by_type], ids=["class", "function"])
def test_a_raw_value_is_refused_and_not_kept(which: Tool, as_text: bool, raw: Any) -> None:
    arguments = {"to": "x", "token": raw}
    answer = judged(which, json.dumps(arguments) if as_text else arguments)
    assert answer.problem.startswith('token: this field takes only a reference to a secret, like {"$secret": "name"}')
    assert answer.arguments == {"to": "x", "token": secrets.NOT_KEPT}
    assert RAW not in repr((answer.problem, answer.arguments, answer.reason))
    assert any(RAW in text for text in answer.raw)


@pytest.mark.parametrize(
    "place, schema",
    [
        (lambda v: {"a": {"b": v}}, {"type": "object", "properties": {"b": TOKEN}}),
        (lambda v: {"a": [v]}, {"type": "array", "items": TOKEN}),
        (lambda v: {"a": [1, v]}, {"type": "array", "prefixItems": [{}, TOKEN]}),
        (lambda v: {"a": {"any": v}}, {"type": "object", "additionalProperties": TOKEN}),
        (lambda v: {"a": {"t_1": v}}, {"type": "object", "patternProperties": {"^t_": TOKEN}}),
        (lambda v: {"a": v}, {"anyOf": [TOKEN, {"type": "string"}]}),
        (lambda v: {"a": v}, {"allOf": [{"description": "x"}, TOKEN]}),
        (lambda v: {"a": v}, {"$ref": "#/$defs/token"}),
        (lambda v: {"a": {"b": {"t": v}}}, {"$ref": "#/$defs/tree"}),
    ],
)
def test_a_mark_is_found_wherever_a_schema_may_put_it(place: Any, schema: Any) -> None:
    tree = {"type": "object", "properties": {"b": {"$ref": "#/$defs/tree"}, "t": TOKEN}}
    whole = {"type": "object", "properties": {"a": schema}, "$defs": {"token": TOKEN, "tree": tree}}
    which = Tool(ToolSpec("pay", "", whole))
    assert not judged(which, place(REFERENCE)).problem
    answer = judged(which, place(RAW))
    assert "takes only a reference" in answer.problem
    assert RAW not in repr((answer.problem, answer.arguments))


def test_what_cannot_be_read_is_not_kept_either() -> None:
    which = marked(token=TOKEN)
    for arguments in (f'{{"token": "{RAW}"', f'{{"token": "{RAW}", "token": {{}}}}', f'["{RAW}"]'):
        answer = judged(which, arguments)
        assert answer.problem
        assert RAW not in repr((answer.problem, answer.arguments))


def test_a_misspelt_field_may_be_a_secret() -> None:
    answer = judged(marked(token=TOKEN), {"tokn": RAW})
    assert answer.problem
    assert answer.arguments == {"tokn": secrets.NOT_KEPT}


def test_a_scalar_in_the_place_of_an_object_with_a_secret_is_not_kept() -> None:
    answer = judged(by_type, {"to": "x", "token": REFERENCE, "account": f'{{"token": "{RAW}"}}'})
    assert answer.problem
    assert RAW not in repr((answer.problem, answer.arguments))


def test_nested_and_optional_secrets_of_a_function() -> None:
    arguments = {"to": "x", "token": REFERENCE, "account": {"number": "7", "token": REFERENCE}, "other": None}
    assert judged(by_type, arguments).arguments == arguments
    arguments["account"] = {"number": "7", "token": RAW}
    answer = judged(by_type, arguments)
    assert answer.problem.startswith("account.token: this field takes only a reference")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"token": {"x-secret": "yes"}}},
        {"properties": {"token": {"not": {"x-secret": True}}}},
        {"properties": {"token": {"contains": {"x-secret": True}}}},
        {"properties": {"token": {"x-secret": True, "default": RAW}}},
        {"properties": {"token": {"anyOf": [{"x-secret": True}, {"type": "null"}], "default": RAW}}},
    ],
)
def test_a_declaration_that_would_let_a_value_through_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"^Tool 'pay': ") as caught:
        ToolSpec("pay", "", schema)
    assert RAW not in str(caught.value)


def test_a_tool_without_secrets_keeps_its_schema_as_it_is() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    which = Tool(ToolSpec("pay", "", schema))
    assert which.schema is schema
    assert not which.takes_secrets


def test_name_and_version_are_in_the_digest() -> None:
    def digest(reference: dict[str, str]) -> bytes:
        return action_digests("t", "pay", "1", "external", {"token": reference}, "", "op")[0]

    digests = {digest({"$secret": "a"}), digest({"$secret": "b"}), digest({"$secret": "a", "version": "1"})}
    assert len(digests) == 3
    assert schema_digest(marked(token=TOKEN)) != schema_digest(marked(token={"type": "string"}))


def test_the_environment_names_secrets_by_name_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAYU_SECRET_LEDGER_TOKEN", "first")
    monkeypatch.setenv("CAYU_SECRET_LEDGER_TOKEN__2", "second")
    resolver = EnvironmentSecrets()
    assert resolver.resolve("t", "ledger-token", "") == "first"
    assert resolver.resolve("t", "ledger-token", "2") == "second"
    with pytest.raises(SecretUnavailable, match="CAYU_SECRET_LEDGER_TOKEN__3 is not set"):
        resolver.resolve("t", "ledger-token", "3")


def test_a_value_does_not_show_itself_in_printed_arguments() -> None:
    value = SecretValue(RAW)
    assert value == RAW
    assert RAW not in repr({"token": value})
