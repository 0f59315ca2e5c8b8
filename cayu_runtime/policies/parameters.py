"""What every policy here is built from: checked parameters, and the identity that covers all of them."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any

from ..contracts import Agreement, PolicyIdentity

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}|[A-Za-z0-9_-]{0,63}\*")
LABEL = re.compile(r"[A-Za-z0-9._-]{1,64}")
MAX_APPROVAL_SECONDS = 30 * 86400
MIN_SECONDS = 0.001


def identity_of(policy: Any, name: str) -> PolicyIdentity:
    """The identity of one of our dataclasses: every field is a parameter, so that none is forgotten.

    A field that came later (metadata `added`) counts once it says something, so that waiting approvals outlive it.

    Raises ValueError when a part, a user's guard for example, has no usable identity of its own.
    """
    said = {f: getattr(policy, f.name) for f in fields(policy) if f.init and f.name != "version"}
    kept = {f.name: value for f, value in said.items() if not (f.metadata.get("added") and value == f.default)}
    parameters = {name: _plain(value) for name, value in kept.items()}
    return PolicyIdentity(name, policy.version, parameters)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Decimal):
        return {"decimal": format(value.normalize(), "f")}
    if isinstance(value, Agreement):
        return value.parameters
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    identity = value.identity
    if not isinstance(identity, PolicyIdentity):
        raise ValueError(f"The identity of a {type(value).__name__} must be a PolicyIdentity.")
    return {"name": identity.name, "version": identity.version, "digest": identity.digest}


def set_tuple(policy: Any, name: str) -> None:
    """Make a field a tuple, so that nobody changes it later. A single text is refused: it reads as its letters."""
    value = getattr(policy, name)
    if not isinstance(value, tuple | list):
        raise TypeError(f"{type(policy).__name__}: {name} must be a tuple, like ('a_name',), not {value!r:.80}.")
    object.__setattr__(policy, name, tuple(value))


def check_tools(policy: Any) -> None:
    set_tuple(policy, "tools")
    if not policy.tools:
        raise ValueError(f"{type(policy).__name__}: tools is empty. Name at least one tool; '*' means every tool.")
    for name in policy.tools:
        check_tool_name(policy, name)


def check_tool_name(policy: Any, name: Any) -> None:
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise ValueError(
            f"{type(policy).__name__}: {name!r:.80} is no tool name. Write a tool's name, the beginning of names as "
            "'read_*', or '*' for every tool."
        )


def fits(names: tuple[str, ...], tool: str) -> bool:
    """Whether a tool has one of these names, or a name that begins like one of them."""
    return any(tool.startswith(name[:-1]) if name.endswith("*") else tool == name for name in names)


def overlap(one: str, other: str) -> str | None:
    """The name that fits the tools which both names fit; None when there are none."""
    for narrow, wide in ((one, other), (other, one)):
        if narrow == wide or (wide.endswith("*") and narrow.startswith(wide[:-1])):
            return narrow
    return None


def check_labels(policy: Any, name: str) -> None:
    set_tuple(policy, name)
    for label in getattr(policy, name):
        check_label(policy, name, label)


def check_label(policy: Any, name: str, label: Any) -> None:
    if not isinstance(label, str) or not LABEL.fullmatch(label):
        text = f"{label!r:.80} in {name} is no name. Use 1 to 64 letters, digits, '.', '_' or '-'."
        raise ValueError(f"{type(policy).__name__}: {text}")


def check_texts(policy: Any) -> None:
    """`reason` and `version`."""
    if not isinstance(policy.reason, str) or len(policy.reason) > 500:
        raise TypeError(f"{type(policy).__name__}: reason must be a text of at most 500 characters.")
    check_version(policy)


def check_version(policy: Any) -> None:
    if not isinstance(policy.version, str) or not 1 <= len(policy.version) <= 40:
        raise TypeError(f"{type(policy).__name__}: version must be a text of 1 to 40 characters.")


def check_seconds(policy: Any, name: str, most: float) -> None:
    value = getattr(policy, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{type(policy).__name__}: {name} must be a number of seconds, not {value!r:.80}.")
    if not math.isfinite(value) or not MIN_SECONDS <= value <= most:
        raise ValueError(f"{type(policy).__name__}: {name} is {value}. Give seconds from {MIN_SECONDS} to {most:g}.")


def check_policy(owner: Any, name: str, part: Any) -> None:
    _check_part(owner, name, part, "authorize(request)")


def check_guard(owner: Any, name: str, part: Any) -> None:
    _check_part(owner, name, part, "check(request)")


def _check_part(owner: Any, name: str, part: Any, method: str) -> None:
    what = f"{type(owner).__name__}: {name}"
    if inspect.iscoroutine(part):
        part.close()
        raise TypeError(f"{what} is a coroutine. Give an object with identity and {method}; that method may be async.")
    if isinstance(part, type):
        raise TypeError(f"{what} is the class {part.__name__}. Give an instance of it.")
    if not callable(getattr(part, method.partition("(")[0], None)):
        raise TypeError(f"{what} must be an object with identity and {method}, not {part!r:.80}.")
    identity = getattr(part, "identity", None)
    if inspect.iscoroutine(identity):
        identity.close()
    if not isinstance(identity, PolicyIdentity) or {type(identity.name), type(identity.version)} != {str}:
        raise TypeError(f"{what} needs an identity: a property that returns PolicyIdentity(name, version, parameters).")
    try:
        _ = identity.digest
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
