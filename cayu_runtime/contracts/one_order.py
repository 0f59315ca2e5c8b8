"""One order for what comes from a set: Python iterates it differently in each process, and digests must not differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel, RootModel
from pydantic.json_schema import GenerateJsonSchema


def in_one_order(read: Any, dumped: Any) -> Any:
    """`dumped`, the JSON form of what was `read`, with each list that comes from a set sorted, at any depth."""
    if isinstance(dumped, dict):
        parts = _parts(read, dumped)
        return {key: in_one_order(parts[key], entry) if key in parts else entry for key, entry in dumped.items()}
    if not isinstance(dumped, list):
        return dumped
    inner = read.root if isinstance(read, RootModel) else read
    if isinstance(inner, (Set, list, tuple)) and len(inner) == len(dumped):
        dumped = [in_one_order(part, entry) for part, entry in zip(inner, dumped, strict=True)]
    return sorted(dumped, key=_by_text) if isinstance(inner, Set) else dumped


class OrderedSchema(GenerateJsonSchema):
    """The JSON Schema of a type, with the defaults of sets in one order: it is digested too."""

    def encode_default(self, dft: Any) -> Any:
        return in_one_order(dft, super().encode_default(dft))


def _by_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _parts(read: Any, dumped: Mapping[str, Any]) -> dict[str, Any]:
    """What was read, by the keys under which it is dumped."""
    if isinstance(read, RootModel):
        return _parts(read.root, dumped)
    if isinstance(read, BaseModel):
        names = {f.serialization_alias or f.alias or name: name for name, f in type(read).model_fields.items()}
        return {key: getattr(read, name) for key, name in names.items()} | (read.model_extra or {})
    if is_dataclass(read):
        return {field.name: getattr(read, field.name) for field in fields(read)}
    if isinstance(read, Mapping) and len(read) == len(dumped):
        return dict(zip(dumped, read.values(), strict=True))  # in the same order; a key may be no text yet
    return {}
