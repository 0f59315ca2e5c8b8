"""The API's description as a page: rendered here, with no script and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from cayu_runtime.http.document import document
from cayu_runtime.http.problem import CODES

METHODS = ("get", "post", "put", "patch", "delete")
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body, an answer or an address. `depth` is how far it lies inside."""

    name: str
    kind: str
    required: bool
    words: str
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    status: str
    words: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    anchor: str
    method: str
    path: str
    summary: str
    parameters: tuple[Field, ...]
    body: tuple[Field, ...]
    answers: tuple[Answer, ...]


@require_safe
def api_docs(request: HttpRequest) -> HttpResponse:
    return render(request, "api/docs.html", {"operations": operations(), "codes": CODES.items()})


@lru_cache(maxsize=1)
def operations() -> tuple[Operation, ...]:
    described = document()
    return tuple(
        _operation(described, path, method, routes[method])
        for path, routes in described["paths"].items()
        for method in METHODS
        if method in routes
    )


def _operation(described: Schema, path: str, method: str, said: Schema) -> Operation:
    body = said.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return Operation(
        anchor=said["operationId"],
        method=method.upper(),
        path=path,
        summary=said.get("summary", ""),
        parameters=tuple(_parameter(one) for one in said.get("parameters", ())),
        body=tuple(_fields(described, body)) if body else (),
        answers=tuple(_answer(described, status, one) for status, one in said["responses"].items()),
    )


def _parameter(said: Schema) -> Field:
    kind = f"{said['in']}, {_kind(said['schema'])}"
    return Field(said["name"], kind, bool(said.get("required")), said.get("description", ""))


def _answer(described: Schema, status: str, said: Schema) -> Answer:
    words = said.get("description", "").replace("`", "") or HTTPStatus(int(status)).phrase
    good = status.startswith("2")
    content: Schema = next(iter(said.get("content", {}).values()), {})
    return Answer(status, words, tuple(_fields(described, content["schema"])) if good and content else ())


def _fields(described: Schema, schema: Schema, depth: int = 0) -> Iterator[Field]:
    schema = _resolved(described, schema)
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        inner = _resolved(described, field)
        items = _resolved(described, inner.get("items", {}))
        yield Field(name, _kind(inner), name in required, field.get("description", ""), depth)
        yield from _fields(described, items or inner, depth + 1)


def _resolved(described: Schema, schema: Schema) -> Schema:
    """A schema behind its references. Choices that are none of them an object stay as they are."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        found: Schema = described["components"]["schemas"][name]
        return found
    for words in ("allOf", "oneOf"):
        if words in schema:
            parts = [_resolved(described, part) for part in schema[words]]
            enum = [value for part in parts for value in part.get("enum", ())]
            return {**schema, "enum": enum} if enum else {**parts[0], **schema}
    return schema


def _kind(schema: Schema) -> str:
    kind = str(schema.get("format") or schema.get("type", "any"))
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"] if value not in ("", None))
    bounds = [("minimum", "from"), ("maximum", "to"), ("minLength", "at least"), ("maxLength", "at most")]
    said = [f"{word} {schema[name]}" for name, word in bounds if name in schema]
    nullable = ["or null"] if schema.get("nullable") else []
    return " ".join([kind, *said, *nullable])
