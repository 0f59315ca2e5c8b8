"""The one result that every call ends with, and the transcript entries made of them (DESIGN §3).

A transcript entry is written in the model library's serialised form without importing it: only a worker that asks a
model pays for that import.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..contracts import ToolResult
from ..models import ToolCall
from .canonical import bounded, size_of, storable, storable_key

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

MAX_CONTENT = 256 * 1024
MAX_STRUCTURED = 256 * 1024
MAX_ARTIFACTS = 64 * 1024
MAX_REASON = 2400  # a person's 2,000 characters, and who said them
ROW_PARTS = 200_000  # more than JSON of these sizes can have


def call_result(
    status: str,
    *,
    executed: bool,
    content: str = "",
    reason: str = "",
    outcome_unknown: bool = False,
    structured: Any = None,
    artifacts: Sequence[Any] = (),
) -> dict[str, Any]:
    """A call's result as it is stored and as the model is told it: JSON-safe and bounded."""
    result: dict[str, Any] = {
        "status": status,
        "executed": executed,
        "outcome_unknown": outcome_unknown,
        "content": storable_key(bounded(str.__str__(content), MAX_CONTENT)),
    }
    if reason:
        result["reason"] = clean_text(reason, MAX_REASON)
    if structured is not None:
        result["structured"] = _bounded_json(structured, MAX_STRUCTURED)
    if artifacts:
        result["artifacts"] = _bounded_json(list(artifacts), MAX_ARTIFACTS)
    return result


def from_tool(
    status: str, result: ToolResult, *, executed: bool, hide: str = "", attachments: Sequence[Any] = ()
) -> dict[str, Any]:
    """A tool's result as it is stored, with references to its `attachments`.

    `hide` (the idempotency key) is taken out wherever the downstream echoed it.
    """
    made = call_result(
        status, executed=executed, content=result.content, structured=result.structured, artifacts=result.artifacts
    )
    if attachments:
        made["attachments"] = list(attachments)
    hidden: dict[str, Any] = without(made, {hide: "[idempotency key]"}) if hide else made
    return hidden


def without(value: Any, hidden: Mapping[str, str]) -> Any:
    """A JSON value in which each text of `hidden` is replaced by what stands for it."""
    return _without(value, hidden) if hidden else value


def _without(value: Any, hidden: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for text, instead in hidden.items():
            value = value.replace(text, instead)
        return value
    if isinstance(value, dict):
        return {_without(key, hidden): _without(entry, hidden) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without(entry, hidden) for entry in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return hidden.get(str(value), value)
    return value


def _bounded_json(value: Any, limit: int) -> Any:
    safe = storable(value, ROW_PARTS)
    size = size_of(safe)
    return safe if size <= limit else {"$truncated": f"{size} bytes of JSON; at most {limit} are kept"}


def visible(text: str) -> str:
    """A person's text without control and invisible characters, except line breaks and tabs. What a database can't keep
    is written out; a text of nothing else says nothing.
    """
    if not any(c.isprintable() and not c.isspace() for c in text):
        return ""
    return "".join(c for c in storable_key(text) if c in "\n\t" or c.isprintable()).strip()


def clean_text(text: str, limit: int) -> str:
    """`visible` text of at most `limit` characters; a cut is said."""
    return bounded(visible(text), limit)


def user_message(text: str, at: datetime) -> dict[str, Any]:
    part = {"part_kind": "user-prompt", "content": text, "timestamp": at.isoformat()}
    return {"kind": "request", "parts": [part]}


def results_message(calls: Iterable[ToolCall], at: datetime) -> dict[str, Any]:
    """One message with the results of a settled round, in the order in which the model made the calls."""
    parts = [
        {
            "part_kind": "tool-return",
            "tool_name": call.tool,
            "tool_call_id": call.call_id,
            "content": _told(call),
            "timestamp": at.isoformat(),
        }
        for call in calls
    ]
    return {"kind": "request", "parts": parts}


def _told(call: ToolCall) -> Any:
    """A call's result as the model gets it: with what a person had changed, if anything."""
    if call.proposed_arguments is None:
        return call.result
    note = f"{call.edited_by} changed the arguments before approving; these are the ones that were approved."
    return {**(call.result or {}), "edited": {"note": note, "arguments": call.arguments}}


def as_history(bodies: list[Any]) -> list[ModelMessage]:
    """Transcript entries as the objects that a model takes."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    return ModelMessagesTypeAdapter.validate_python(bodies)
