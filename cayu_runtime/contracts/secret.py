"""Secrets: named in arguments, read when the tool runs, kept nowhere (DESIGN §5).

An argument that holds a secret takes a reference, `{"$secret": "ledger_token"}`, with an optional `version`. What is
proposed, reviewed, digested and stored is the reference; the runtime puts the value in its place in the memory of the
worker, just before the tool runs.

A class tool marks such a field in its schema: `{"x-secret": true, "description": "…"}`. A function tool gives the
parameter the type `Secret`, and gets a string.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import PlainValidator, WithJsonSchema

MARK = "x-secret"
NAME = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")
MAX_NAME = 64
MAX_VERSION = 40
MIN_VALUE = 4

# Where a schema holds other schemas: by name, in a list, or a single one.
NAMED = ("properties", "patternProperties", "$defs", "definitions")
LISTED = ("prefixItems", "allOf", "anyOf", "oneOf")
SINGLE = ("items", "additionalProperties")

REFERENCE = {
    MARK: True,
    "type": "object",
    "properties": {
        "$secret": {"type": "string", "pattern": f"^{NAME.pattern}$", "maxLength": MAX_NAME},
        "version": {"type": "string", "pattern": f"^{NAME.pattern}$", "maxLength": MAX_VERSION},
    },
    "required": ["$secret"],
    "additionalProperties": False,
}
TAKES = 'takes only a reference to a secret, like {"$secret": "name"}. A value is refused, and it is not kept'


class SecretUnavailable(Exception):
    """There is no such secret, or it can't be read now. The message names the secret, never its value."""


class SecretResolver(Protocol):
    """Where secrets come from: `CAYU_SECRETS` is the dotted path of a class of this shape, made once per process.

    `resolve` is called by the worker in the tool's own thread, outside of any transaction and within the tool's time,
    once for each reference. It raises SecretUnavailable for what it can't give. Nothing that it returns is kept.
    """

    def resolve(self, tenant: str, name: str, version: str) -> str: ...


class EnvironmentSecrets:
    """Secrets from the environment of the workers, the same for every tenant.

    `ledger-token` is `CAYU_SECRET_LEDGER_TOKEN`; its version `2` is `CAYU_SECRET_LEDGER_TOKEN__2`.
    """

    def resolve(self, tenant: str, name: str, version: str) -> str:
        variable = f"CAYU_SECRET_{name}" + (f"__{version}" if version else "")
        variable = variable.upper().replace("-", "_")
        value = os.environ.get(variable)
        if not value:
            raise SecretUnavailable(f"{variable} is not set in the environment of the workers.")
        return value


class SecretValue(str):
    """A secret as a tool gets it: a string that doesn't show itself when arguments are printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[secret]"


def reference_of(value: Any) -> dict[str, str] | None:
    """`value` as a reference to a secret, in its one spelling; None if it is anything else."""
    if not isinstance(value, Mapping) or not {"$secret"} <= set(value) <= {"$secret", "version"}:
        return None
    for key, limit in (("$secret", MAX_NAME), ("version", MAX_VERSION)):
        text = value.get(key, "1")
        if not isinstance(text, str) or len(text) > limit or not NAME.fullmatch(text):
            return None
    return dict(value)


def with_references(schema: Any) -> Any:
    """`schema` with the schema of a reference wherever a field is marked. The field keeps its title and description.

    ValueError for a mark that would not be found again in a value, and for a default that is no reference.
    """
    reached: list[Any] = []
    made = _with_references(schema, reached)
    if len(reached) != _marks(made):
        raise ValueError(f'"{MARK}" stands where it is not looked for: mark fields under properties or items.')
    return made


def holds_mark(schema: Any) -> bool:
    """Whether anything in a schema is marked secret, also where no mark is looked for."""
    return _marks(schema) > 0


def field_names(schema: Any) -> frozenset[str]:
    """The names of all fields that a schema declares, at any depth."""
    if isinstance(schema, Mapping):
        named = schema.get("properties")
        own = frozenset(named) if isinstance(named, Mapping) else frozenset[str]()
        return own.union(*(field_names(part) for part in schema.values()))
    return frozenset[str]().union(*map(field_names, schema)) if isinstance(schema, (list, tuple)) else frozenset()


def _with_references(schema: Any, reached: list[Any]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    if schema.get(MARK) is True:
        default = schema.get("default")
        if default is not None and reference_of(default) is None:
            raise ValueError(f"The default of a secret field is not a reference. It {TAKES}.")
        reached.append(schema)
        kept = {key: schema[key] for key in ("title", "description", "default") if key in schema}
        return {**kept, **REFERENCE}
    made = dict(schema)
    for key, value in schema.items():
        if key in NAMED and isinstance(value, Mapping):
            made[key] = {name: _with_references(part, reached) for name, part in value.items()}
        elif key in LISTED and isinstance(value, list):
            made[key] = [_with_references(part, reached) for part in value]
        elif key in SINGLE:
            made[key] = _with_references(value, reached)
    _refuse_hidden_default(made)
    return made


def _refuse_hidden_default(schema: Mapping[str, Any]) -> None:
    """`Secret | None = "…"`: the default stands beside the mark."""
    marked = any(isinstance(part, Mapping) and part.get(MARK) is True for part in schema.get("anyOf", ()))
    default = schema.get("default")
    if marked and default is not None and reference_of(default) is None:
        raise ValueError(f"The default of a secret field is not a reference. It {TAKES}.")


def _marks(schema: Any) -> int:
    """How many marks stand anywhere in a schema, also where no schema is looked for."""
    if isinstance(schema, Mapping):
        own = not isinstance(schema.get(MARK, False), Mapping) and schema.get(MARK, False) is not False
        return own + sum(_marks(part) for part in schema.values())
    return sum(_marks(part) for part in schema) if isinstance(schema, (list, tuple)) else 0


def _read(value: Any) -> Any:
    if isinstance(value, SecretValue):
        return value
    reference = reference_of(value)
    if reference is None:
        raise ValueError(f"This field {TAKES}.")
    return reference


if TYPE_CHECKING:
    Secret = str
else:
    Secret = Annotated[Any, PlainValidator(_read), WithJsonSchema(REFERENCE)]
