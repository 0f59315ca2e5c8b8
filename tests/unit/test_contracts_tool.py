"""Writing a tool: by a class with a spec, or by a function under `@tool` whose schema comes from its hints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from cayu_runtime import (
    FunctionTool,
    InvalidArguments,
    MissingResource,
    Tool,
    ToolContext,
    ToolEffect,
    ToolResult,
    ToolSpec,
    tool,
)

CTX = ToolContext("s-1", idempotency_key="key-1", resources={"ledger": "http://ledger", "nothing": None})


@tool()
def refund(order: str, amount: float, full: bool = False) -> str:
    """Refund an order."""
    return f"{order} {amount} {full}"


def test_the_schema_comes_from_the_hints() -> None:
    assert refund.schema == {
        "type": "object",
        "title": "refund_arguments",
        "properties": {
            "order": {"type": "string", "title": "Order"},
            "amount": {"type": "number", "title": "Amount"},
            "full": {"type": "boolean", "title": "Full", "default": False},
        },
        "required": ["order", "amount"],
        "additionalProperties": False,
    }


def test_the_description_comes_from_the_docstring_and_the_name_from_the_function() -> None:
    assert (refund.spec.name, refund.spec.description) == ("refund", "Refund an order.")
    assert isinstance(refund, FunctionTool)


def test_a_tool_is_external_version_1_with_a_minute_if_it_says_nothing() -> None:
    """When in doubt, EXTERNAL; an undeclared version stays "1" so that waiting approvals survive a new build."""
    for spec in (refund.spec, ToolSpec("bare")):
        assert (spec.effect, spec.version, spec.timeout, spec.replay) == (ToolEffect.EXTERNAL, "1", 60.0, True)
        assert (spec.verb, spec.target) == ("", "")


def test_what_the_decorator_is_told_wins() -> None:
    said: dict[str, Any] = {
        "name": "refund_order", "description": "Gives money back.", "effect": ToolEffect.IDEMPOTENT, "version": "7",
        "parallel_safe": False, "timeout": 5.0, "verb": "Refund an order", "target": "order", "replay": False,
    }  # fmt: skip
    made = tool(**said)(refund.function)
    assert {name: getattr(made.spec, name) for name in said} == said


def test_constraints_and_descriptions_of_hints_are_in_the_schema() -> None:
    class Line(BaseModel):
        sku: str

    def order(
        count: Annotated[int, Field(ge=1, le=9, description="How many")], lines: list[Line], note: str | None = None
    ) -> str:
        return ""

    order.__annotations__ = {"count": Annotated[int, Field(ge=1, le=9, description="How many")], "lines": list[Line]}
    order.__annotations__["note"] = str | None
    schema = tool()(order).schema
    assert schema["properties"]["count"] == {
        "type": "integer", "title": "Count", "minimum": 1, "maximum": 9, "description": "How many",
    }  # fmt: skip
    assert schema["properties"]["lines"]["items"] == {"$ref": "#/$defs/Line"}
    assert schema["properties"]["note"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Note",
    }  # fmt: skip


# ---- ctx and how the function is called ----


def test_a_first_parameter_called_ctx_gets_the_context_and_is_no_argument() -> None:
    @tool()
    def with_ctx(ctx: ToolContext, order: str) -> str:
        return f"{ctx.idempotency_key} {order}"

    assert list(with_ctx.schema["properties"]) == ["order"]
    assert with_ctx.run(CTX, {"order": "1042"}) == ToolResult("key-1 1042")
    with pytest.raises(InvalidArguments, match="ctx: Extra inputs are not permitted"):
        with_ctx.coerce({"order": "1042", "ctx": {}})


def test_ctx_needs_no_hint_and_may_be_all() -> None:
    def only_ctx(ctx):
        return ctx.session_id

    made = tool()(only_ctx)
    assert made.schema["properties"] == {}
    assert made.run(CTX, {}) == ToolResult("s-1")


def test_ctx_in_another_place_is_an_argument() -> None:
    @tool()
    def later(order: str, ctx: str) -> str:
        return order + ctx

    assert later.run(CTX, {"order": "a", "ctx": "b"}) == ToolResult("ab")


def test_keyword_only_parameters_are_arguments() -> None:
    @tool()
    def keywords(*, order: str, full: bool = True) -> str:
        return f"{order} {full}"

    assert keywords.schema["required"] == ["order"]
    assert keywords.run(CTX, keywords.coerce({"order": "1042"})) == ToolResult("1042 True")


def test_a_function_gets_the_types_of_its_hints() -> None:
    class Line(BaseModel):
        sku: str

    seen: list[Any] = []

    def order(lines: Any, tags: Any) -> str:
        seen.extend([lines, tags])
        return ""

    order.__annotations__ = {"lines": list[Line], "tags": set[str]}
    made = tool()(order)
    effective = made.coerce({"lines": [{"sku": "a"}], "tags": ["x"]})
    assert effective == {"lines": [{"sku": "a"}], "tags": ["x"]}
    made.run(CTX, effective)
    assert seen == [[Line(sku="a")], {"x"}]


def test_a_default_is_filled_in_and_never_shared_between_calls() -> None:
    def collect(into: Any) -> str:
        into.append(1)
        return str(into)

    collect.__annotations__ = {"into": list[int]}
    collect.__defaults__ = ([],)
    made = tool()(collect)
    assert [made.run(CTX, made.coerce({})) for _ in range(2)] == [ToolResult("[1]"), ToolResult("[1]")]


# ---- what a function may return ----


@pytest.mark.parametrize(
    "answer, result",
    [
        ("done", ToolResult("done")),
        ("", ToolResult("")),
        ({"id": 7}, ToolResult(structured={"id": 7})),
        (ToolResult("no", is_error=True), ToolResult("no", is_error=True)),
    ],
)
def test_text_a_mapping_or_a_result_becomes_the_result(answer: Any, result: ToolResult) -> None:
    def at_once() -> Any:
        return answer

    async def later() -> Any:
        await asyncio.sleep(0)
        return answer

    assert tool()(at_once).run(CTX, {}) == result
    waiting: Any = tool()(later).run(CTX, {})
    assert asyncio.run(waiting) == result


@pytest.mark.parametrize("answer", [None, 7, True, ["x"], b"x", object])
def test_anything_else_is_handed_on_for_whoever_runs_the_tool_to_judge(answer: Any) -> None:
    assert tool(name="answer")(lambda: answer).run(CTX, {}) is answer


# ---- what cannot be a tool, said when it is written ----


def star(*orders: str) -> str:
    return ""


def double_star(order: str, **more: str) -> str:
    return ""


def no_hint(order, amount: float) -> str:
    return ""


def positional_only(order: str, /) -> str:
    return ""


def underscore(_order: str) -> str:
    return ""


@pytest.mark.parametrize(
    "function, said",
    [
        (star, "Tool star: *orders can't be described by a schema."),
        (double_star, "Tool double_star: *more can't be described by a schema."),
        (positional_only, "Tool positional_only: *order can't be described by a schema."),
        (no_hint, "Tool no_hint: give parameter 'order' a type hint."),
        (underscore, "Tool underscore: parameter '_order' begins with an underscore, which hides it from the schema."),
    ],
)
def test_what_no_schema_describes_is_refused_when_it_is_written(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(TypeError) as refused:
        tool()(function)
    assert str(refused.value) == said


def test_a_hint_that_means_nothing_is_refused_when_it_is_written() -> None:
    def unknown(order: Any) -> str:
        return ""

    unknown.__annotations__ = {"order": "Unheard"}
    with pytest.raises(NameError, match="Unheard"):
        tool()(unknown)


# ---- class tools ----


class Look(Tool):
    spec = ToolSpec(
        "look", input_schema={"properties": {"page": {"default": 1}, "size": {"default": [10]}, "any": True}}
    )

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        return ToolResult(str(args))


def test_a_class_tool_gets_its_top_level_defaults_and_nothing_else_changes() -> None:
    look = Look()
    assert look.coerce({}) == {"page": 1, "size": [10]}
    assert look.coerce({"page": "2", "more": None}) == {"page": "2", "size": [10], "more": None}
    given = {"page": None}
    assert look.coerce(given) == {"page": None, "size": [10]}
    assert given == {"page": None}


def test_a_class_tool_without_a_schema_takes_any_object() -> None:
    bare = Tool(ToolSpec("bare"))
    assert bare.schema == {"type": "object"}
    assert bare.coerce({"a": 1}) == {"a": 1}
    with pytest.raises(NotImplementedError, match="Tool must implement run"):
        bare.run(CTX, {})


def test_a_spec_can_be_given_to_one_object_of_a_class() -> None:
    assert Look(ToolSpec("other")).spec.name == "other"
    assert Look().spec.name == "look"


# ---- the context ----


def test_a_resource_is_there_or_its_absence_is_said() -> None:
    assert CTX.require("ledger") == "http://ledger"
    for name in ("mail", "nothing"):
        with pytest.raises(MissingResource, match=f"This tool needs the resource '{name}'"):
            CTX.require(name)


@pytest.mark.parametrize("frozen, name", [(CTX, "tenant"), (ToolResult("x"), "is_error"), (ToolSpec("x"), "effect")])
def test_contracts_are_frozen(frozen: Any, name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        setattr(frozen, name, "changed")


def test_arguments_that_do_not_fit_are_told_by_name() -> None:
    with pytest.raises(InvalidArguments) as refused:
        refund.coerce({"amount": "much", "extra": 1})
    assert str(refused.value) == (
        "order: Field required; "
        "amount: Input should be a valid number, unable to parse string as a number; "
        "extra: Extra inputs are not permitted"
    )
