"""What a process can be asked to measure: each makes itself ready, and returns the function that measures.

`serve` is the other end of `processes.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from . import api, counts, queue, speed, storage, sweeping, uncertain, workers
from .lifecycle import Engine

Measure = Callable[..., Callable[[], Any]]

MEASURES: dict[str, Measure] = {
    "api": api.api,
    "calls": speed.calls,
    "counts": counts.counts,
    "decisions": workers.decisions,
    "end to end": workers.end_to_end,
    "lifecycles": speed.lifecycles,
    "lookups": uncertain.lookups,
    "queue": queue.queue,
    "raw driver": speed.raw_driver,
    "rounds": speed.rounds,
    "server": storage.server,
    "storage": storage.storage,
    "sweep": sweeping.sweep,
}


def serve(name: str, given: dict[str, Any], engine: Engine) -> None:
    """Say "ready", wait for a line, measure, answer with one line of JSON, and stay until told to leave."""
    run = MEASURES[name](engine, **given)
    _tell("ready")
    if sys.stdin.readline():
        _tell(json.dumps(run()))
        sys.stdin.readline()


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
