"""Of arguments that a tool with secrets refuses, only what its schema declares is kept, at each depth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from cayu_runtime import Agent, InvalidArguments, Secret, Tool, ToolEffect, ToolSpec, tool
from cayu_runtime.core.judgement import JudgedCall, ProposedCall, judge, schema_digest
from cayu_runtime.core.secrets import NOT_KEPT, without_raw, without_raw_calls
from cayu_runtime.models import Session
from tests.unit.judging import judged

RAW = "hunter2-very-secret"
REFERENCE = {"$secret": "ledger-token"}
TOKEN = {"x-secret": True}
AUTH = {"type": "object", "properties": {"user": {"type": "string"}, "token": TOKEN}, "required": ["token"]}
PLAIN = {"type": "object", "properties": {"name": {"type": "string"}}}


def taking(schema: Any, **more: Any) -> Tool:
    properties = {"a": schema, "spare": TOKEN, "n": {"type": "integer"}}
    return Tool(ToolSpec("login", "", {"type": "object", "properties": properties, "$defs": {"auth": AUTH}, **more}))


def said(answer: JudgedCall) -> str:
    return repr((answer.problem, answer.arguments, answer.reason))


def refused(which: Tool, arguments: Any) -> JudgedCall:
    answer = judged(which, arguments)
    assert answer.problem
    assert answer.masked
    assert RAW not in said(answer)
    assert RAW in answer.raw
    return answer


@pytest.mark.parametrize("wrong", [{"tokn": RAW}, {"tokn": {"deep": [RAW]}}, {"token": REFERENCE, "tokn": RAW}])
@pytest.mark.parametrize(
    "schema, place",
    [
        (AUTH, lambda v: v),
        ({"$ref": "#/$defs/auth"}, lambda v: v),
        ({"anyOf": [AUTH, {"type": "null"}]}, lambda v: v),
        ({"oneOf": [PLAIN, {"$ref": "#/$defs/auth"}]}, lambda v: v),
        ({"type": "object", "anyOf": [AUTH, {"type": "null"}]}, lambda v: v),
        ({"allOf": [{"description": "who"}, AUTH]}, lambda v: v),
        ({"$ref": "#/$defs/auth", "anyOf": [{"required": ["user"]}, {"required": ["token"]}]}, lambda v: v),
        ({"type": "array", "items": AUTH}, lambda v: [v]),
        ({"type": "array", "prefixItems": [{"type": "string"}, AUTH]}, lambda v: ["x", v]),
        ({"type": "object", "additionalProperties": AUTH}, lambda v: {"any": v}),
        ({"type": "object", "patternProperties": {"^x": AUTH}}, lambda v: {"x": v}),
        (PLAIN, lambda v: v),
    ],
    ids=[
        "object",
        "reference",
        "anyOf",
        "oneOf",
        "typed anyOf",
        "allOf",
        "both",
        "list",
        "tuple",
        "map",
        "pattern",
        "other",
    ],
)
def test_a_misspelt_field_is_refused_and_not_kept_at_any_depth(schema: Any, place: Any, wrong: Any) -> None:
    answer = refused(taking(schema), {"a": place(wrong), "n": 7})
    assert NOT_KEPT in said(answer)
    assert answer.arguments["n"] == 7


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": RAW},
        {"a": [RAW]},
        {"a": json.dumps({"token": RAW})},
        {"a": {"user": {"token": RAW}}},
        {"a": {"user": [RAW]}},
        {"a": {"token": REFERENCE, "mode": RAW}},
    ],
)
def test_what_has_not_the_declared_type_is_not_kept(arguments: Any) -> None:
    auth = {**AUTH, "properties": {**AUTH["properties"], "mode": {"enum": ["x"]}}}  # type: ignore[dict-item]
    refused(taking(auth), arguments)


def test_what_is_declared_is_kept_and_a_strange_field_loses_its_name() -> None:
    answer = refused(taking(AUTH), {"a": {"user": "ann", "tokn": RAW, f"{RAW}=": 1}, "n": 7})
    assert answer.arguments == {"a": {"user": "ann", "tokn": NOT_KEPT, "[field 3: name not kept]": NOT_KEPT}, "n": 7}
    assert answer.problem.startswith("arguments.a: only declared fields are taken")
    assert answer.problem.endswith("Declared: token, user.")


@pytest.mark.parametrize(
    "schema, value",
    [
        ({}, {"anything": [1]}),
        ({"type": "object"}, {"anything": [1]}),
        ({"type": "array"}, [{"anything": 1}]),
        ({"type": "object", "additionalProperties": True}, {"anything": {"x": 1}}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"anything": 1}),
        ({**AUTH, "additionalProperties": {"type": "string"}}, {"token": REFERENCE, "Accept": "text/plain"}),
        ({"anyOf": [{}, {"type": "null"}]}, {"anything": 1}),
        ({"anyOf": [PLAIN, {"type": "string"}]}, {"name": "ann"}),
    ],
)
def test_what_is_plainly_allowed_is_taken(schema: Any, value: Any) -> None:
    answer = judged(taking(schema), {"a": value})
    assert (answer.problem, answer.arguments) == ("", {"a": value})


def test_beside_named_fields_an_additional_one_is_not_kept_when_the_call_is_refused() -> None:
    refused(taking({**AUTH, "additionalProperties": {"type": "string"}}), {"a": {"tokn": RAW}})


class Account(BaseModel):
    """Ignores what it doesn't know, as models do by default."""

    user: str
    token: Secret


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


def no(value: str) -> str:
    raise ValueError(f"I don't like {value}")


def never(value: str) -> str:
    raise PydanticCustomError("missing", f"I don't like {value}")


@tool(effect=ToolEffect.EXTERNAL)
def login(
    account: Account,
    mood: Annotated[str, AfterValidator(no)] = "",
    word: Annotated[str, AfterValidator(never)] = "",
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] = Cat(),  # noqa: B008
    sizes: dict[str, int] | None = None,
    count: Annotated[int, Field(lt=10)] = 1,
) -> str:
    return "in"


GOOD = {"user": "ann", "token": REFERENCE}


def test_a_field_that_a_model_would_ignore_is_refused() -> None:
    refused(login, {"account": {**GOOD, "tokn": RAW}})


@pytest.mark.parametrize("field", [{"mood": RAW}, {"word": RAW}, {"pet": {"kind": RAW}}, {"sizes": {RAW: "x"}}])
def test_what_a_validator_says_of_a_value_is_not_told(field: Any) -> None:
    assert RAW not in judged(login, {"account": GOOD, **field}).problem


def test_what_a_validator_says_of_the_declaration_is_told() -> None:
    problem = judged(login, {"account": {"token": REFERENCE}, "count": 12}).problem
    assert problem == "account.user: Field required; count: Input should be less than 10"


def test_a_schema_s_messages_hide_the_value() -> None:
    names = {"type": "object", "propertyNames": {"pattern": "^a"}, "additionalProperties": True}
    assert judged(taking({"enum": ["x"]}), {"a": RAW}).problem == 'The value is not one of "x"'
    assert judged(taking(names), {"a": {RAW: 1}}).problem == "A field has a name that is not allowed."


def test_what_a_tool_s_own_check_or_the_parser_says_is_not_told() -> None:
    class Own(Tool):
        def coerce(self, args: dict[str, Any]) -> dict[str, Any]:
            raise InvalidArguments(f"I don't like {args}")

    own = Own(taking({"type": "string"}).spec)
    assert RAW not in judged(own, {"a": RAW}).problem
    assert RAW not in judged(own, f'{{"{RAW}": 1, "{RAW}": 2}}').problem


class Overridden(Tool):
    spec = ToolSpec("login", "", {}, ToolEffect.EXTERNAL)

    @property
    def schema(self) -> Mapping[str, Any]:
        return {"type": "object", "properties": {"token": TOKEN}}


def test_the_mark_is_read_from_the_schema_that_counts() -> None:
    assert Overridden().takes_secrets
    refused(Overridden(), {"token": RAW})
    refused(Overridden(), {"tokn": RAW})
    assert judged(Overridden(), {"token": REFERENCE}).problem == ""
    same = Tool(ToolSpec("login", "", Overridden().schema))
    assert schema_digest(Overridden()) == schema_digest(same)


@pytest.mark.parametrize("arguments", [{"to": RAW}, json.dumps({"a": [RAW]}), f'{{"to": "{RAW}'])
def test_a_misspelt_tool_may_have_been_one_that_takes_secrets(arguments: Any) -> None:
    note = Tool(ToolSpec("note", "", {"type": "object"}))
    answer = judge(Agent("a", "m", tools=(note, login)), Session(), ProposedCall("c1", "log_in", arguments))
    assert answer.arguments == {"$raw": NOT_KEPT}
    assert RAW in answer.raw
    plain = judge(Agent("a", "m", tools=(note,)), Session(), ProposedCall("c1", "log_in", {"to": "x"}))
    assert (plain.arguments, plain.masked) == ({"to": "x"}, False)


def test_a_schema_too_deep_to_be_followed_declares_nothing() -> None:
    tree = {"type": "object", "properties": {"t": TOKEN, "b": {"anyOf": [{"$ref": "#/$defs/tree"}]}}}
    which = Tool(ToolSpec("login", "", {"$ref": "#/$defs/tree", "$defs": {"tree": tree}}))
    value: dict[str, Any] = {"t": RAW}
    for _ in range(40):
        value = {"b": value}
    assert refused(which, value).arguments == {"$raw": NOT_KEPT}


def test_a_number_is_taken_out_of_the_message_too_and_its_shape_stays() -> None:
    kept, raw = without_raw(taking(AUTH), {"spare": 83746512, "tokn": "text", "other": 4711.0})
    body = {
        "kind": "response",
        "finish_reason": "stop",
        "usage": {"input_tokens": 4711},
        "parts": [
            {"part_kind": "text", "content": "I say 83746512 and 4711."},
            {"part_kind": "tool-call", "tool_name": "login", "tool_call_id": "c1", "args": '{"spare": 83746512}'},
            {"part_kind": "tool-call", "tool_name": "note", "tool_call_id": "c2", "args": '{"n": 83746512, "m": 1}'},
        ],
    }
    stored = without_raw_calls(body, {"c1": kept}, raw)
    assert "83746512" not in json.dumps(stored)
    assert {**stored, "parts": []} == {**body, "parts": []}
    text, call, other = stored["parts"]
    assert text == {"part_kind": "text", "content": f"I say {NOT_KEPT} and {NOT_KEPT}."}
    assert call == {**body["parts"][1], "args": kept}  # type: ignore[index]
    assert other["args"] == {"n": NOT_KEPT, "m": 1}
