"""Secret fields of a call's arguments: a raw value is refused and masked, a reference is resolved (DESIGN §5).

Only `core/perform` resolves. Where a schema allows a secret, nothing raw may stand, whatever else it allows there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from ..contracts import EffectNotPerformed, InvalidArguments, SecretResolver, SecretUnavailable, SecretValue, Tool
from ..contracts.secret import LISTED, MARK, MIN_VALUE, TAKES, reference_of
from . import canonical
from .results import without

MAX_STEPS = 64
NOT_KEPT = "[not kept: a raw value in a call that takes secrets]"

Act = Callable[[str, Any], Any]


class RawSecret(InvalidArguments):
    """A raw value stands in a secret field. The message says which field and what to send, never the value."""


def refuse_raw(tool: Tool, arguments: Any) -> None:
    """Raises RawSecret when a secret field of these arguments holds anything but a reference."""
    at_secrets(tool, arguments, _refuse)


def _refuse(path: str, value: Any) -> Any:
    if reference_of(value) is None:
        raise RawSecret(f"{path}: this field {TAKES}.")
    return value


def without_raw(tool: Tool, proposed: Any) -> tuple[Any, frozenset[str]]:
    """What may be stored of arguments that were refused, and the raw texts that may not.

    Fields that the schema does not know are masked too: one of them may be a secret field, misspelt. Text that is no
    JSON is not kept at all.
    """
    if not isinstance(proposed, Mapping):
        try:
            value = canonical.parse(proposed or "{}")
        except canonical.NotCanonical:
            return {"$raw": NOT_KEPT}, frozenset()
    else:
        value = canonical.storable(proposed)
    if not isinstance(value, dict):
        return {"$raw": NOT_KEPT}, frozenset(_texts(value))
    raw: set[str] = set()

    def hide(path: str, found: Any) -> Any:
        if reference_of(found) is not None or found == NOT_KEPT:
            return found
        raw.update(_texts(found))
        return NOT_KEPT

    known = tool.schema.get("properties", {})
    value = {name: entry if name in known else hide(name, entry) for name, entry in value.items()}
    return at_secrets(tool, value, hide), frozenset(raw)


def without_raw_calls(body: Any, kept: Mapping[str, Any], raw: frozenset[str]) -> Any:
    """A model's message as it may be stored: the calls `kept` (by call id) with their masked arguments.

    The `raw` texts are taken out of the rest of the message too. A signature over altered thinking is dropped: it
    would not fit any more.
    """
    hidden = dict.fromkeys(sorted(raw, key=len, reverse=True), NOT_KEPT)
    parts = []
    for part in body["parts"]:
        if part.get("part_kind") == "tool-call" and part.get("tool_call_id") in kept:
            part = {**part, "args": kept[part["tool_call_id"]]}
        clean = without(part, hidden)
        if clean != part and "signature" in clean:
            clean["signature"] = None
        parts.append(clean)
    return {**body, "parts": parts}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) >= MIN_VALUE:
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _texts(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)


def resolved(tool: Tool, tenant: str, arguments: dict[str, Any], found: dict[str, str]) -> dict[str, Any]:
    """`arguments` with the value in the place of each reference. `found` receives each value with its secret's name.

    Raises EffectNotPerformed when one is missing: nothing has begun yet.
    """
    resolver = _resolver(settings.CAYU_SECRETS)

    def read(path: str, value: Any) -> Any:
        reference = reference_of(value)
        if isinstance(value, SecretValue) or reference is None:
            return value
        name = reference["$secret"]
        secret = _ask(resolver, tenant, name, reference.get("version", ""))
        found[secret] = name
        return SecretValue(secret)

    made: dict[str, Any] = at_secrets(tool, arguments, read)
    return made


def _ask(resolver: SecretResolver, tenant: str, name: str, version: str) -> str:
    try:
        secret = resolver.resolve(tenant, name, version)
    except SecretUnavailable as error:
        raise _not_begun(name, f"is not available: {error}") from None
    except Exception as error:
        raise _not_begun(name, f"can't be read ({type(error).__name__}).") from None
    if not isinstance(secret, str) or len(secret) < MIN_VALUE:
        raise _not_begun(name, f"is shorter than {MIN_VALUE} characters, so it could not be masked.")
    return secret


def _not_begun(name: str, why: str) -> EffectNotPerformed:
    return EffectNotPerformed(f"The secret {name!r} {why} Nothing was done.")


@lru_cache(maxsize=8)
def _resolver(path: str) -> SecretResolver:
    resolver: SecretResolver = import_string(path)()
    return resolver


def at_secrets(tool: Tool, value: Any, act: Act) -> Any:
    """`value` with `act(path, part)` in the place of each part where the tool's schema has a secret field.

    Absent and null parts are left alone. A scalar where the schema wants an object with a secret in it counts as one.
    """
    return _walk(tool.schema, tool.schema, value, "", act, 0)


def _walk(schema: Any, root: Mapping[str, Any], value: Any, path: str, act: Act, steps: int) -> Any:
    if steps > MAX_STEPS:
        raise InvalidArguments(f"{path}: the schema is too deep to find its secret fields.")
    if value is None or not isinstance(schema, Mapping):
        return value
    if schema.get(MARK) is True:
        return act(path or "arguments", value)
    if not _holds_mark(schema, root, frozenset()):
        return value
    if "$ref" in schema:
        value = _walk(_referred(schema["$ref"], root), root, value, path, act, steps + 1)
    for key in LISTED[1:]:
        for part in schema.get(key, ()):
            value = _walk(part, root, value, path, act, steps + 1)
    if isinstance(value, dict):
        return {key: _walk_entry(schema, root, key, entry, path, act, steps) for key, entry in value.items()}
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        rest = schema.get("items")
        return [
            _walk(first[n] if n < len(first) else rest, root, entry, f"{path}[{n}]", act, steps + 1)
            for n, entry in enumerate(value)
        ]
    return act(path or "arguments", value)


def _walk_entry(
    schema: Mapping[str, Any], root: Mapping[str, Any], key: str, entry: Any, path: str, act: Act, steps: int
) -> Any:
    below = f"{path}.{key}" if path else key
    named = [schema["properties"][key]] if key in schema.get("properties", {}) else []
    named += [part for pattern, part in schema.get("patternProperties", {}).items() if re.search(pattern, key)]
    for part in named or [schema.get("additionalProperties")]:
        entry = _walk(part, root, entry, below, act, steps + 1)
    return entry


def _holds_mark(schema: Any, root: Mapping[str, Any], seen: frozenset[str]) -> bool:
    """Whether a secret field can stand at or below this schema."""
    if isinstance(schema, list):
        return any(_holds_mark(part, root, seen) for part in schema)
    if not isinstance(schema, Mapping):
        return False
    if schema.get(MARK) is True:
        return True
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        if _holds_mark(_referred(reference, root), root, seen | {reference}):
            return True
    return any(_holds_mark(part, root, seen) for key, part in schema.items() if key not in ("$defs", "definitions"))


def _referred(reference: str, root: Mapping[str, Any]) -> Any:
    """The schema that a local reference names; nothing for one elsewhere, which validation refuses."""
    if not reference.startswith("#"):
        return None
    place: Any = root
    for step in filter(None, reference[1:].split("/")):
        place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return place
