"""Arguments of a tool that takes secrets: only what its schema names (DESIGN §5).

What nobody declared may be a secret under a misspelt name: it is refused, and of what is refused it is not kept.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..contracts import Discreet
from ..contracts.secret import MARK, field_names

NAMING = ("properties", "patternProperties", "additionalProperties")
LISTING = ("prefixItems", "items")
ELSEWHERE = ("allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "$recursiveRef")
MAX_NAME = 64
KINDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}

ANYTHING: Mapping[str, Any] = {}

Shape = Mapping[str, Any]
Hide = Callable[[Any], Any]


def refuse_others(schema: Mapping[str, Any], arguments: Any) -> None:
    """Raises Discreet for a field that the schema neither names nor plainly allows (`additionalProperties`), and for an
    object, a list or a scalar in the place of another one.
    """
    declared = _Declared(schema, strict=False)
    _refuse(declared, declared.shapes(schema), arguments, "arguments")


def _refuse(declared: _Declared, shapes: list[Shape], value: Any, path: str) -> None:
    if value is None or any(shape.get(MARK) is True for shape in shapes):
        return
    fitting = [shape for shape in shapes if _form(value) in _forms(shape)]
    if not fitting:
        wanted = sorted({form for shape in shapes for form in _forms(shape)})
        raise Discreet(f"{path}: the schema has {' or '.join(wanted) or 'nothing'} here.")
    for name, entry, parts in declared.entries(fitting, value):
        if parts is None:
            known = sorted({known for shape in fitting for known in shape.get("properties", {})})
            raise Discreet(
                f"{path}: only declared fields are taken, because the tool takes secrets; what stood in others is not "
                f"kept. Declared: {', '.join(known) or 'none'}."
            )
        step = f"[{name}]" if isinstance(name, int) else f".{name if name in declared.names else '…'}"
        _refuse(declared, parts, entry, f"{path}{step}")


def only_declared(schema: Mapping[str, Any], arguments: Any, hide: Hide) -> Any:
    """`arguments` with `hide(part)` in the place of each part that the schema does not declare.

    A part that is kept has the declared type and stands in a declared field; beside named fields,
    `additionalProperties` declares nothing. An unknown field keeps its name only if it resembles a declared one.
    """
    declared = _Declared(schema, strict=True)
    return _keep(declared, declared.shapes(schema), arguments, hide)


def _keep(declared: _Declared, shapes: list[Shape], value: Any, hide: Hide) -> Any:
    if value is None or any(shape.get(MARK) is True for shape in shapes):
        return value
    fitting = [shape for shape in shapes if _fits(shape, value)]
    if not fitting:
        return hide(value)
    entries = declared.entries(fitting, value)
    if isinstance(value, list):
        return [hide(entry) if parts is None else _keep(declared, parts, entry, hide) for _, entry, parts in entries]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for number, (name, entry, parts) in enumerate(entries, 1):
        if parts is None:
            kept[_shown(name, declared.names, number)] = hide(entry)
        else:
            kept[name] = _keep(declared, parts, entry, hide)
    return kept


def _shown(name: str, names: frozenset[str], number: int) -> str:
    alike = len(name) <= MAX_NAME and difflib.get_close_matches(name, names, 1, 0.75)
    return name if alike else f"[field {number}: name not kept]"


class _Declared:
    """What a schema declares at each place. `strict`: beside named fields, or named alternatives, nothing else is."""

    def __init__(self, root: Shape, *, strict: bool) -> None:
        self.root, self.strict = root, strict
        self.names = field_names(root)

    def shapes(self, schema: Any, seen: frozenset[str] = frozenset()) -> list[Shape]:
        """The schemas that say what may stand here: references followed, alternatives beside each other."""
        if schema is True:
            return [ANYTHING]
        if not isinstance(schema, Mapping):
            return []
        found: list[Shape] = []
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            found += self.shapes(referred(reference, self.root), seen | {reference})
        for part in schema.get("allOf", ()):
            found += filter(_says, self.shapes(part, seen))
        says = _says(schema) or any(map(_says, found))
        for key in ("anyOf", "oneOf"):
            for part in schema.get(key, ()):
                found += self.shapes(part, seen)
        if _says(schema) or not any(key in schema for key in ELSEWHERE):
            found.append(schema)
        if self.strict or says:
            found = list(filter(_says, found)) or found
        return list({id(shape): shape for shape in found}.values())

    def entries(self, shapes: list[Shape], value: Any) -> Iterator[tuple[Any, Any, list[Shape] | None]]:
        """Each entry of an object or a list, with the shapes that are declared for it; None if none is."""
        if not isinstance(value, (dict, list)):
            return
        keywords = NAMING if isinstance(value, dict) else LISTING
        naming = [shape for shape in shapes if any(keyword in shape for keyword in keywords)]
        if not naming or not all(map(_says, shapes)):  # an object or a list of anything
            naming = [{"additionalProperties": True, "items": True}]
        named: Any = value.items() if isinstance(value, dict) else enumerate(value)
        for name, entry in named:
            found: list[Any] = []
            for shape in naming:
                found += _under(shape, name, self.strict) if isinstance(value, dict) else _at(shape, name)
            below = {id(shape): shape for part in found for shape in self.shapes(part)}
            yield name, entry, list(below.values()) if any(part is not False for part in found) else None


def _under(shape: Shape, name: str, strict: bool) -> list[Any]:
    named = [shape["properties"][name]] if name in shape.get("properties", {}) else []
    named += [part for pattern, part in shape.get("patternProperties", {}).items() if re.search(pattern, name)]
    if named or (strict and shape.get("properties")):
        return named
    return [shape["additionalProperties"]] if "additionalProperties" in shape else []


def _at(shape: Shape, number: int) -> list[Any]:
    first = shape.get("prefixItems", [])
    if number < len(first):
        return [first[number]]
    return [shape["items"]] if "items" in shape else []


def _says(schema: Shape) -> bool:
    return any(key in schema for key in ("type", "enum", "const", MARK, *NAMING, *LISTING))


def _forms(shape: Shape) -> set[str]:
    """Which of object, list and scalar a shape may be."""
    return {kind if kind in ("object", "array") else "scalar" for kind in _kinds(shape)}


def _form(value: Any) -> str:
    kind = KINDS.get(type(value), "")
    return kind if kind in ("object", "array") else "scalar"


def _kinds(shape: Shape) -> set[str]:
    types = shape.get("type")
    if types is not None:
        return {types} if isinstance(types, str) else set(types)
    options = [shape["const"]] if "const" in shape else shape.get("enum", [])
    told = {KINDS.get(type(option), "null") for option in options}
    told |= {"object"} if any(key in shape for key in NAMING) else set()
    told |= {"array"} if any(key in shape for key in LISTING) else set()
    return told or set(KINDS.values())


def _fits(shape: Shape, value: Any) -> bool:
    kind = KINDS.get(type(value), "")
    wanted = _kinds(shape)
    if kind not in wanted and not (kind in ("integer", "number") and wanted & {"integer", "number"}):
        return False
    return value in shape["enum"] if "enum" in shape else "const" not in shape or value == shape["const"]


def referred(reference: str, root: Mapping[str, Any]) -> Any:
    """The schema that a local reference names; nothing for one elsewhere, which validation refuses."""
    if not reference.startswith("#"):
        return None
    place: Any = root
    for step in filter(None, reference[1:].split("/")):
        place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return place
