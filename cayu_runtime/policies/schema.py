"""Whether arguments that fit a JSON Schema can hold a value at a path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .arguments import EACH


def cannot_hold(schema: Any, path: str) -> bool:
    """True only when it is certain; what this does not understand leaves room for anything.

    Certain are an object that is closed (`additionalProperties: false`) and has no such property, and a `type` that
    holds nothing of that name.
    """
    return _cannot(schema, path.split("."), schema, frozenset())


def _cannot(schema: Any, steps: list[str], root: Any, followed: frozenset[str]) -> bool:
    """`followed` are the references that led here without a step, so that one to itself ends."""
    if not isinstance(schema, Mapping):
        return schema is False
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in followed:
        if _cannot(_target(root, reference), steps, root, followed | {reference}):
            return True
    if any(_cannot(part, steps, root, followed) for part in _listed(schema, "allOf")):
        return True
    for parts in (_listed(schema, "anyOf"), _listed(schema, "oneOf")):
        if parts and all(_cannot(part, steps, root, followed) for part in parts):
            return True
    return bool(steps) and _cannot_step(schema, steps[0], steps[1:], root)


def _cannot_step(schema: Mapping[str, Any], step: str, rest: list[str], root: Any) -> bool:
    types = schema.get("type")
    kind = "array" if step == EACH else "object"
    if isinstance(types, str | list) and kind not in ([types] if isinstance(types, str) else types):
        return True
    if step == EACH:
        parts = [*_listed(schema, "prefixItems"), schema.get("items", True)]
        return all(_cannot(part, rest, root, frozenset()) for part in parts)
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping) or "patternProperties" in schema:
        return False
    inner = properties.get(step, schema.get("additionalProperties", True))
    return _cannot(inner, rest, root, frozenset())


def _listed(schema: Mapping[str, Any], key: str) -> list[Any]:
    parts = schema.get(key, [])
    return list(parts) if isinstance(parts, list | tuple) else []


def _target(root: Any, reference: str) -> Any:
    """What a reference within the schema points to; True, which says nothing, for any other."""
    if reference != "#" and not reference.startswith("#/"):
        return True
    value = root
    for key in reference.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        if not isinstance(value, Mapping) or key not in value:
            return True
        value = value[key]
    return value
