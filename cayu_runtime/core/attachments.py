"""What of a tool's result is too large for the call's row: kept whole beside it, and said in its place (DESIGN §4).

`bound` runs where the tool ran, outside of any transaction; `keep` writes the rows in T4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ..contracts import ToolResult
from ..models import Attachment, EffectRecord, ToolCall
from . import ids
from .canonical import compact, storable, storable_key
from .results import MAX_ARTIFACTS, MAX_CONTENT, MAX_STRUCTURED, visible, without
from .transitions import Change

MAX_TOTAL = 32 * 1024 * 1024
MAX_COUNT = 32
MAX_PARTS = 5_000_000
EXCERPT = 32 * 1024
EXCERPT_OF_JSON = 4 * 1024
JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Attached:
    """A part of a result on its way to a row of its own. Without `body` it was too large to keep."""

    id: UUID
    kind: str
    name: str
    media_type: str
    size: int
    sha256: bytes
    body: bytes | None

    @property
    def reference(self) -> dict[str, Any]:
        """What stands for it in the call's result."""
        return {
            "attachment": str(self.id) if self.body is not None else None,
            "kind": self.kind,
            "name": self.name,
            "media_type": self.media_type,
            "size": self.size,
            "sha256": self.sha256.hex(),
        }

    @property
    def said(self) -> str:
        where = (
            f"All of it is kept as attachment {self.id}" if self.body is not None else "All of it is too large to keep"
        )
        return f"{where} ({self.size:,} bytes, SHA-256 {self.sha256.hex()})."


@dataclass(slots=True)
class _Taken:
    """The attachments of one result so far. `hidden` is taken out of every body."""

    hidden: Mapping[str, str]
    attached: list[Attached] = field(default_factory=list)
    size: int = 0

    def add(self, kind: str, name: str, media_type: str, body: bytes) -> Attached:
        for text, instead in self.hidden.items():
            body = body.replace(text.encode(), instead.encode())
        fits = len(self.attached) < MAX_COUNT and self.size + len(body) <= MAX_TOTAL
        made = Attached(
            ids.new_id(), kind, name, media_type, len(body), hashlib.sha256(body).digest(), body if fits else None
        )
        if fits:
            self.attached.append(made)
            self.size += len(body)
        return made


def bound(result: ToolResult, hidden: Mapping[str, str], *, key: str = "") -> tuple[ToolResult, tuple[Attached, ...]]:
    """A valid result made small enough for the call's row, and what was too large for it. Never fails for content.

    `hidden` (secrets, and what stands for each) is taken out everywhere. `key` is taken out of attachments only: what
    goes to the row is looked through when it is written.
    """
    content = str.__str__(result.content)
    if not hidden and len(content) <= MAX_CONTENT and result.structured is None and not result.artifacts:
        return result, ()
    taken = _Taken({**hidden, key: "[idempotency key]"} if key else hidden)
    made = ToolResult(
        content=_content(without(content, hidden), taken),
        structured=None if result.structured is None else _structured(result.structured, hidden, taken),
        artifacts=_artifacts(result.artifacts, hidden, taken) if result.artifacts else (),
        is_error=result.is_error,
    )
    return made, tuple(taken.attached)


def _content(content: str, taken: _Taken) -> str:
    if len(content) <= MAX_CONTENT:
        return content
    whole = taken.add(
        "content", "content.txt", "text/plain; charset=utf-8", content.encode("utf-8", "backslashreplace")
    )
    return (
        f"{content[:EXCERPT]}\n[Cut here: these are the first {EXCERPT:,} of {len(content):,} characters. {whole.said}]"
    )


def _structured(value: Any, hidden: Mapping[str, str], taken: _Taken) -> Any:
    safe = without(storable(value, MAX_PARTS), hidden)
    text = compact(safe)
    if len(text) <= MAX_STRUCTURED and len(text.encode()) <= MAX_STRUCTURED:
        return safe
    whole = taken.add("structured", "structured.json", JSON_TYPE, text.encode())
    return {"$attachment": whole.reference, "said": f"Cut: {whole.said}", "excerpt": text[:EXCERPT_OF_JSON]}


def _artifacts(entries: Sequence[Any], hidden: Mapping[str, str], taken: _Taken) -> tuple[Any, ...]:
    plain = entries if type(entries) in (list, tuple) else [storable(entries)]  # another kind may fail when it is read
    made = [_artifact(entry, hidden, taken) for entry in plain]
    text = compact(made)
    if len(text.encode()) <= MAX_ARTIFACTS:
        return tuple(made)
    whole = taken.add("artifact", "artifacts.json", JSON_TYPE, text.encode())
    return ({"$attachment": whole.reference, "said": f"Cut: {whole.said}", "excerpt": text[:EXCERPT_OF_JSON]},)


def _artifact(entry: Any, hidden: Mapping[str, str], taken: _Taken) -> Any:
    body = _body(entry)
    if body is None:
        return without(storable(entry), hidden)
    described = without(storable({name: part for name, part in entry.items() if name != "body"}), hidden)
    name, kind = described.get("name"), described.get("media_type")
    whole = taken.add(
        "artifact",
        file_name(name if isinstance(name, str) else ""),
        visible(kind)[:100] if isinstance(kind, str) else "application/octet-stream",
        body,
    )
    return {**described, "body": whole.reference}


def _body(entry: Any) -> bytes | None:
    """The body of an artifact that is a file; None for one that only describes, or can't be read."""
    try:
        body = entry["body"] if isinstance(entry, Mapping) else None
        if isinstance(body, str):
            return str.__str__(body).encode("utf-8", "backslashreplace")
        return bytes(body) if isinstance(body, (bytes, bytearray)) else None
    except Exception:  # the object's own doing
        return None


def file_name(name: str) -> str:
    """A tool's name for a file, as one that can't lead anywhere."""
    clean = "".join(c for c in visible(name) if c not in '\n\t/\\:"<>|?*').strip(". ")
    return clean[:200] or "attachment"


def keep(change: Change, call: ToolCall, effect: EffectRecord | None, attached: Sequence[Attached]) -> None:
    """Write the rows. A late outcome adds to those of the outcome before it."""
    if not attached:
        return
    first = Attachment.objects.filter(call=call).count()
    change.add(
        *(
            Attachment(
                id=part.id,
                tenant_id=call.tenant_id,
                session_id=call.session_id,
                call=call,
                effect=effect,
                position=first + n,
                kind=part.kind,
                name=storable_key(part.name),
                media_type=storable_key(part.media_type),
                size=part.size,
                sha256=part.sha256,
                body=part.body,
                created_at=change.now,
            )
            for n, part in enumerate(attached)
        )
    )
