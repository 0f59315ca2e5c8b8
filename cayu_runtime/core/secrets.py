"""Secret fields of a call's arguments: a raw value is refused and masked, a reference is resolved (DESIGN §5).

Only `core/perform` resolves. Where a schema allows a secret, nothing raw may stand, whatever else it allows there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from django.conf import settings
from django.utils.module_loading import import_string

from ..contracts import Discreet, EffectNotPerformed, SecretResolver, SecretUnavailable, SecretValue, Tool
from ..contracts.secret import LISTED, MARK, MIN_VALUE, TAKES, field_names, reference_of, with_references
from . import canonical
from .declared import only_declared, referred
from .results import without

MAX_STEPS = 64
NOT_KEPT = "[not kept: a raw value in a call that takes secrets]"

# Where a message of a model holds words. The rest gives it its shape, which a short raw text must not break.
WORDS = ("content", "args", "provider_details", "metadata")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)(?:"|$)')
_NUMBER = re.compile(r"\d{4,}(?:\.\d+)?")

Act = Callable[[str, Any], Any]


class RawSecret(Discreet):
    """A raw value stands in a secret field. The message says which field and what to send, never the value."""


def schema_of(tool: Tool) -> Mapping[str, Any]:
    """The schema of a tool as it is shown, checked and digested: each secret field has the schema of a reference."""
    schema: Mapping[str, Any] = with_references(tool.schema) if tool.takes_secrets else tool.schema
    return schema


def refuse_raw(tool: Tool, arguments: Any) -> None:
    """Raises RawSecret when a secret field of these arguments holds anything but a reference."""
    at_secrets(tool, arguments, _refuse)


def _refuse(path: str, value: Any) -> Any:
    if reference_of(value) is None:
        raise RawSecret(f"{path}: this field {TAKES}.")
    return value


def without_raw(tool: Tool | None, proposed: Any) -> tuple[Any, frozenset[str]]:
    """What may be stored of arguments that were refused, and the raw texts that may not.

    Kept is what the schema declares and does not mark: what it does not know may be a secret field, misspelt. Nothing
    is kept of text that is no JSON object, and of arguments for no known tool.
    """
    names = field_names(tool.schema) if tool is not None else frozenset[str]()
    if isinstance(proposed, Mapping):
        value = canonical.storable(proposed)
    else:
        try:
            value = canonical.parse(proposed or "{}")
        except canonical.NotCanonical:
            return {"$raw": NOT_KEPT}, frozenset(_quoted(str(proposed), names))
    raw: set[str] = set()

    def hide(found: Any) -> Any:
        if reference_of(found) is not None or found == NOT_KEPT:
            return found
        raw.update(_texts(found, names))
        return NOT_KEPT

    try:
        if tool is not None and isinstance(value, dict):
            kept = at_secrets(tool, value, lambda path, found: hide(found))
            kept = only_declared(tool.schema, kept, hide)
            if canonical.size_of(kept) <= canonical.MAX_BYTES:
                return kept, frozenset(raw)
    except Exception:  # a schema that can't be followed declares nothing
        raw.clear()
    return {"$raw": NOT_KEPT}, frozenset(_texts(value, names))


def without_raw_calls(body: Any, kept: Mapping[str, Any], raw: frozenset[str]) -> Any:
    """A model's message as it may be stored: the calls `kept` (by call id) with their masked arguments.

    The `raw` texts are taken out of the rest of the message too, as they are and as JSON writes them. A signature over
    altered thinking is dropped: it would not fit any more.
    """
    written = {form for text in raw for form in (text, *written_forms(text))}
    hidden = dict.fromkeys(sorted(written, key=len, reverse=True), NOT_KEPT)
    parts = []
    for part in body["parts"]:
        own = kept.get(part.get("tool_call_id")) if part.get("part_kind") == "tool-call" else None
        clean = _without({**part, "args": own or _read(part["args"])} if own or "args" in part else part, hidden)
        if "signature" in clean and clean != part:
            clean["signature"] = None
        parts.append(clean)
    return {**_without(body, hidden), "parts": parts}


def _without(body: Mapping[str, Any], hidden: Mapping[str, str]) -> dict[str, Any]:
    return {key: without(entry, hidden) if key in WORDS else entry for key, entry in body.items()}


def _read(args: Any) -> Any:
    """Arguments as an object: JSON text without one of its numbers would be no JSON."""
    try:
        return canonical.parse(args) if isinstance(args, str) else args
    except canonical.NotCanonical:
        return args


def _texts(value: Any, names: frozenset[str]) -> Iterator[str]:
    """The texts and numbers of a value that are long enough to be looked for elsewhere."""
    if isinstance(value, Mapping):
        for entry in value.values():
            yield from _texts(entry, names)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry, names)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        forms = {str(value), str(int(value))} if isinstance(value, float) and value.is_integer() else {str(value)}
        yield from (form for form in forms if len(form) >= MIN_VALUE)
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            yield from _quoted(value, names)


def _quoted(text: str, names: frozenset[str]) -> Iterator[str]:
    """What may be values in JSON text, even broken: what stands in quotes and is no field's name, and numbers."""
    for part in (*_QUOTED.findall(text), *_NUMBER.findall(text)):
        try:
            read = json.loads(f'"{part}"')
        except ValueError:
            read = part
        if len(read) >= MIN_VALUE and read not in names:
            yield read


def written_forms(secret: str) -> set[str]:
    """How a value may be written: as it is, in quotes, as JSON, in a URL."""
    clean = canonical.storable_key(secret)
    written = {clean, repr(secret)[1:-1], json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    url = secret.encode("utf-8", "replace")
    return {form for form in (*written, quote(url), quote_plus(url), quote(url, safe="")) if form}


def resolved(tool: Tool, tenant: str, arguments: dict[str, Any], found: dict[str, str]) -> dict[str, Any]:
    """`arguments` with the value in the place of each reference. `found` receives each value with its secret's name.

    Raises EffectNotPerformed when one is missing: nothing has begun yet.
    """

    def read(path: str, value: Any) -> Any:
        reference = reference_of(value)
        if isinstance(value, SecretValue) or reference is None:
            return value
        try:
            return read_one(tenant, reference, found)
        except SecretUnavailable as error:
            raise EffectNotPerformed(f"{error} Nothing was done.") from None

    made: dict[str, Any] = at_secrets(tool, arguments, read)
    return made


def read_one(tenant: str, reference: Mapping[str, Any], found: dict[str, str]) -> SecretValue:
    """The value of one reference; `found` receives it with its name. SecretUnavailable says which is missing, and why.

    The resolver may wait: never inside a transaction.
    """
    name = reference["$secret"]
    try:
        secret = _resolver(settings.CAYU_SECRETS).resolve(tenant, name, reference.get("version", ""))
    except SecretUnavailable as error:
        raise SecretUnavailable(f"The secret {name!r} is not available: {error}") from None
    except Exception as error:
        raise SecretUnavailable(f"The secret {name!r} can't be read ({type(error).__name__}).") from None
    if not isinstance(secret, str) or len(secret) < MIN_VALUE:
        raise SecretUnavailable(
            f"The secret {name!r} is shorter than {MIN_VALUE} characters, so it could not be masked."
        )
    found[secret] = name
    return SecretValue(secret)


def hidden(found: Mapping[str, str]) -> dict[str, str]:
    """What stands for each value that was read, however it is written, longest first."""
    forms = {form: f"[secret {name}]" for value, name in found.items() for form in written_forms(value)}
    return dict(sorted(forms.items(), key=lambda pair: len(pair[0]), reverse=True))


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
        raise Discreet(f"{path}: the schema is too deep to find its secret fields.")
    if value is None or not isinstance(schema, Mapping):
        return value
    if schema.get(MARK) is True:
        return act(path or "arguments", value)
    if not _holds_mark(schema, root, frozenset()):
        return value
    if "$ref" in schema:
        value = _walk(referred(schema["$ref"], root), root, value, path, act, steps + 1)
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
        if _holds_mark(referred(reference, root), root, seen | {reference}):
            return True
    return any(_holds_mark(part, root, seen) for key, part in schema.items() if key not in ("$defs", "definitions"))
