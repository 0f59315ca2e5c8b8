"""Does a tool do what its declared effect says? Evidence for a test, not a proof: what nobody watched is named."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..contracts import Tool, ToolContext, ToolEffect
from ..core.judgement import effective_arguments
from ..core.perform import Ambiguous, Done, Outcome, perform
from .watch import watching

WORKSPACE = "workspace"
MAX_TIMEOUT = 600.0
NOT_WATCHED = (
    "what a remote system did with a request",
    "databases, queues and caches",
    "what a process that the tool started did",
    "files and connections that C code opened by itself, or that were open before",
    "this process's own memory, and the tool's",
    "permissions, times, links and empty directories in the workspace",
)


class EffectStatus(StrEnum):
    CONSISTENT = "consistent"
    """A NONE tool of which nothing was seen that lasts."""
    MISMATCH = "mismatch"
    """A NONE tool that changed files, opened a connection or started a process: declare another effect."""
    OBSERVED = "observed"
    """An effectful tool ran once; the evidence says what was seen. Nothing follows for repeating it."""


class ObservationLimit(RuntimeError):
    """The workspace has more entries or bytes than may be looked at: there is no verdict."""


class NotObserved(RuntimeError):
    """The tool failed before it did anything, so its effect was not seen: there is no verdict."""


@dataclass(frozen=True, slots=True)
class EffectEvidence:
    """What was seen of one run. Paths in `created`, `updated`, `deleted` are relative to the workspace.

    `outside` are files elsewhere that were opened for writing, removed or renamed; `connections` are addresses and
    sockets of this machine, `names` host names that were looked up, `processes` programs. `ended` says how the run
    ended, `content` what the model would be told. `not_watched` names what this evidence says nothing about.
    """

    tool: str
    effect: ToolEffect
    status: EffectStatus
    ended: str
    content: str
    created: tuple[str, ...]
    updated: tuple[str, ...]
    deleted: tuple[str, ...]
    outside: tuple[str, ...]
    connections: tuple[str, ...]
    names: tuple[str, ...]
    processes: tuple[str, ...]
    not_watched: tuple[str, ...]

    @property
    def did(self) -> tuple[str, ...]:
        """Everything that was seen and may last, as short phrases."""
        seen = {
            "created": self.created, "updated": self.updated, "deleted": self.deleted, "wrote outside": self.outside,
            "connected to": self.connections, "looked up": self.names, "started": self.processes,
        }  # fmt: skip
        return tuple(f"{what} {one}" for what, found in seen.items() for one in found)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a workspace is looked at: its entries, the bytes of one file and of all."""

    entries: int = 1000
    file_bytes: int = 1 << 20
    all_bytes: int = 16 << 20


def verify_tool_effect(
    tool: Tool,
    arguments: Mapping[str, Any],
    *,
    files: Mapping[str, bytes] | None = None,
    resources: Mapping[str, Any] | None = None,
    allow_effects: bool = False,
    timeout: float = 10.0,
    not_watched: Sequence[str] = (),
    bounds: Bounds = Bounds(),
) -> EffectEvidence:
    """Run `tool` once and compare what was seen with the effect that it declares.

    It gets a fresh temporary directory with `files` in it as `ctx.require("workspace")` (a Path); the working
    directory stays as it is. `arguments` are validated as the runtime does, InvalidArguments included. No policy, no
    approval, no rows, and no protection: this process is no sandbox, so give it controlled `resources`. An IDEMPOTENT
    or EXTERNAL tool runs only with `allow_effects=True`. The whole process is watched meanwhile.

    Raises PermissionError without that consent, TimeoutError after `timeout` seconds, ObservationLimit, NotObserved;
    none of them is a verdict. A tool that did not end in time is left behind, and may still act. A TimeoutError that
    the tool raises itself is an ending like any other.
    """
    effect = tool.spec.effect
    if effect is not ToolEffect.NONE and not allow_effects:
        raise PermissionError(
            f"Tool {tool.spec.name!r} declares {effect.value}: running it may act for real. Give it controlled "
            "resources and say allow_effects=True."
        )
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ValueError(f"A timeout is more than 0 and at most {MAX_TIMEOUT:g} seconds, not {timeout!r}.")
    effective = effective_arguments(tool, dict(arguments))
    with tempfile.TemporaryDirectory(prefix="cayu-effect-") as folder:
        root = Path(folder).resolve()
        _seed(root, files or {})
        before = _snapshot(root, bounds)
        context = ToolContext(
            session_id="verify", tenant="verify", agent_name="verify", call_id="verify", operation_id="verify",
            idempotency_key="verify", dispatch_id="verify", seconds_left=timeout,
            resources={**(resources or {}), WORKSPACE: root},
        )  # fmt: skip
        seen = _Seen(root)
        with watching(seen.hear):
            outcome = perform(tool, context, effective)
        if isinstance(outcome, Ambiguous) and "seconds" in outcome.evidence:
            raise TimeoutError(f"Tool {tool.spec.name!r} did not end within {timeout:g} seconds: there is no verdict.")
        after = _snapshot(root, bounds)
    return _judge(tool, outcome, before, after, seen, (*NOT_WATCHED, *not_watched))


def _judge(
    tool: Tool,
    outcome: Outcome,
    before: Mapping[str, str],
    after: Mapping[str, str],
    seen: _Seen,
    not_watched: tuple[str, ...],
) -> EffectEvidence:
    evidence = EffectEvidence(
        tool=tool.spec.name,
        effect=tool.spec.effect,
        status=EffectStatus.OBSERVED,
        ended=_ending(outcome),
        content="" if isinstance(outcome, Ambiguous) else outcome.result.content,
        created=tuple(sorted(after.keys() - before.keys())),
        updated=tuple(sorted(name for name in before.keys() & after.keys() if before[name] != after[name])),
        deleted=tuple(sorted(before.keys() - after.keys())),
        outside=seen.of("file"),
        connections=seen.of("connection") + seen.of("local"),
        names=seen.of("name"),
        processes=seen.of("process"),
        not_watched=not_watched,
    )
    if tool.spec.effect is not ToolEffect.NONE:
        return evidence
    if evidence.did:
        return replace(evidence, status=EffectStatus.MISMATCH)
    if isinstance(outcome, Ambiguous):
        raise NotObserved(f"Tool {tool.spec.name!r} failed before anything was seen: {evidence.ended}")
    return replace(evidence, status=EffectStatus.CONSISTENT)


def _ending(outcome: Outcome) -> str:
    if isinstance(outcome, Ambiguous):
        return f"{outcome.classification}: {outcome.summary}"
    return "returned" if isinstance(outcome, Done) else "said that it did not act"


class _Seen:
    """What was heard, each thing once. What happens in the workspace is left to the snapshots."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._found: dict[str, dict[str, None]] = {}

    def hear(self, kind: str, what: str) -> None:
        if kind == "file" and Path(what).is_relative_to(self.root):
            return
        with self._lock:
            self._found.setdefault(kind, {})[what] = None

    def of(self, kind: str) -> tuple[str, ...]:
        return tuple(self._found.get(kind, ()))


def _seed(root: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = (root / name).resolve()
        if not path.is_relative_to(root) or path == root:
            raise ValueError(f"{name!r} does not lie in the workspace. Name files relative to it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _snapshot(root: Path, bounds: Bounds) -> dict[str, str]:
    """Digest of each regular file, by its path. Links are counted, never followed."""
    found: dict[str, str] = {}
    total = 0
    for number, path in enumerate(_entries(root), start=1):
        if number > bounds.entries:
            raise ObservationLimit(f"The workspace has more than {bounds.entries} entries: there is no verdict.")
        if path.is_symlink() or not path.is_file():
            continue
        size = path.stat().st_size
        total += size
        if size > bounds.file_bytes or total > bounds.all_bytes:
            raise ObservationLimit(
                f"{path.relative_to(root)} has {size} bytes, all files so far {total}; at most {bounds.file_bytes} and "
                f"{bounds.all_bytes} are looked at: there is no verdict."
            )
        found[str(path.relative_to(root))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _entries(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _entries(path)
