"""Canonical JSON, digests, and values made safe to store (DESIGN §5, §11).

Arguments are refused when they can't be represented exactly; results never are: what has happened must be recordable,
so `storable` tags what JSON can't say.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import rfc8785

MAX_DEPTH = 64
MAX_BYTES = 1024 * 1024
MAX_INTEGER = 2**53 - 1
MAX_PARTS = 100_000

# Where the standard encoder's sorted text may differ from RFC 8785: after a structural character a number with a
# fraction, an exponent or 16 digits; and characters that UTF-16 and Unicode sort differently.
_BEYOND_PLAIN = re.compile("(?:^|[\\[:,])-?[0-9]+[.eE]|[0-9]{16}|[\U00010000-\U0010ffff]")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


class NotCanonical(ValueError):
    """A value has no exact canonical form. The message says where and what to send instead."""


def parse(text: str | bytes) -> Any:
    """JSON text of bounded size and depth to a value; raises NotCanonical with a sentence otherwise."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) > MAX_BYTES:
        raise NotCanonical(f"The JSON is {len(raw)} bytes; at most {MAX_BYTES} are accepted.")
    if depth_of(raw) > MAX_DEPTH:
        raise NotCanonical(f"The JSON is nested deeper than {MAX_DEPTH} levels.")
    try:
        decoded = raw.decode("utf-8", "surrogatepass")  # json.loads would guess UTF-16 too, which depth_of cannot count
        return json.loads(decoded, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except NotCanonical:
        raise
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise NotCanonical(f"This is not JSON: {error}.") from None
    except ValueError:
        raise NotCanonical("An integer has more digits than can be kept. Send it as a string.") from None


def depth_of(raw: bytes) -> int:
    """The deepest nesting of JSON text, without parsing it."""
    depth = deepest = 0
    in_string = escaped = False
    for byte in raw:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _refuse_constant(name: str) -> Any:
    raise NotCanonical(f"{name} is not a JSON number. Send it as a string.")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise NotCanonical(f"The key {twice!r} stands twice in one object.")
    return result


def exact(value: Any) -> Any:
    """`value` as plain JSON types, or NotCanonical when it has no exact canonical form or passes a limit."""
    plain = _exact(value, "$", 0)
    size = size_of(plain)
    if size > MAX_BYTES:
        raise NotCanonical(f"The value is {size} bytes; at most {MAX_BYTES} are accepted.")
    return plain


def _exact(value: Any, path: str, depth: int) -> Any:
    if depth >= MAX_DEPTH and isinstance(value, (Mapping, list, tuple)):
        raise NotCanonical(f"{path[:80]}… is nested deeper than {MAX_DEPTH} levels.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _exact_text(value, path)
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise NotCanonical(f"{path}: integers of 2^53 and more lose digits. Send it as a string.")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotCanonical(f"{path}: {value} is not a JSON number. Send it as a string.")
        if abs(value) > MAX_INTEGER and value.is_integer():
            raise NotCanonical(f"{path}: numbers of 2^53 and more lose digits. Send it as a string.")
        return value
    if isinstance(value, Mapping):
        return {_exact_key(k, path): _exact(v, f"{path}.{k}", depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
    raise NotCanonical(f"{path}: a {type(value).__name__} is not JSON.")


def _exact_key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise NotCanonical(f"{path}: the key {key!r} is not a string.")
    return _exact_text(key, path)


def _exact_text(value: str, path: str) -> str:
    if _HALF_CHARACTER.search(value):
        raise NotCanonical(f"{path}: the text holds half a character (a lone surrogate). Send valid Unicode.")
    return value


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes of an exact value."""
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return rfc8785.dumps(value) if _BEYOND_PLAIN.search(text) else text.encode()
    except (ValueError, TypeError):
        return rfc8785.dumps(value)  # which says what can't be canonical


def size_of(value: Any) -> int:
    """Bytes of a JSON value: what a limit is about, and much quicker than its canonical form."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass"))


def digest(value: Any) -> bytes:
    """SHA-256 (32 bytes) over the canonical form."""
    return hashlib.sha256(canonical(value)).digest()


def compact(value: Any) -> str:
    """The JSON text of a storable value, without white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def storable(value: Any, parts: int = MAX_PARTS) -> Any:
    """`value` as JSON that every database and client takes. Never fails: what JSON can't say is tagged.

    An object that raises when it is looked at is named by its type; so is what lies beyond 62 levels or `parts` parts.
    """
    return _storable(value, 0, [parts, parts])


def _storable(value: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:
        return {"$truncated": f"more than {left[1]} parts"}
    try:
        return _tagged(value, depth, left)
    except Exception as error:  # the object's own doing; RecursionError is one of them
        return {"$unreadable": f"{type(value).__name__} ({type(error).__name__})"}


def _tagged(value: Any, depth: int, left: list[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return storable_text(str.__str__(value))
    if isinstance(value, int):
        whole = int.__index__(value)
        return whole if abs(whole) <= MAX_INTEGER else {"$number": str(whole)}
    if isinstance(value, float):
        number = float.__float__(value)
        exact_number = math.isfinite(number) and not (abs(number) > MAX_INTEGER and number.is_integer())
        return number if exact_number else {"$number": repr(number)}
    if depth >= MAX_DEPTH - 2:
        return {"$truncated": f"nested deeper than {MAX_DEPTH - 2} levels"}
    if isinstance(value, Mapping):
        return _tagged_mapping(value, depth, left)
    if isinstance(value, (list, tuple, set, frozenset)):
        parts: list[Any] = []
        for entry in value:
            parts.append(_storable(entry, depth + 1, left))
            if left[0] < 0:
                break
        return sorted(parts, key=compact) if isinstance(value, (set, frozenset)) else parts  # in each process the same
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": bytes(value[:1024]).hex(), "size": len(value)}
    return {"$repr": storable_key(repr(value)[:500])}


def _tagged_mapping(value: Mapping[Any, Any], depth: int, left: list[int]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for number, (key, entry) in enumerate(value.items()):
        try:
            name = storable_key(key)
        except Exception:
            name = f"$key {number}"
        while name in made:
            name += "'"
        made[name] = _storable(entry, depth + 1, left)
        if left[0] < 0:
            break
    return made


def storable_text(text: str) -> Any:
    clean = storable_key(text)
    return text if clean == text else {"$text": clean}


def storable_key(key: Any) -> str:
    """Text without NUL and lone surrogates; each is written out as its escape."""
    text = key if isinstance(key, str) else str(key)
    return _UNSTORABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def whole(text: str) -> str:
    """Text without half characters, which no request could carry; each is written out as its escape."""
    return _HALF_CHARACTER.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def bounded(text: str, limit: int) -> str:
    """`text` cut to `limit` characters, with the cut said."""
    return text if len(text) <= limit else f"{text[: limit - 30]}… [{len(text)} characters in all]"
