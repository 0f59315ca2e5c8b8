"""SQLite has one writer at a time. Those who want to write queue here, in the kernel, which wakes the next at once.

SQLite itself lets a waiting writer sleep, longer each time, up to a tenth of a second: two busy processes then do less
than one, and one may starve for seconds (docs/benchmark.md).
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

_held = threading.local()


@contextmanager
def turn() -> Iterator[None]:
    """Wait for this thread's turn to write, and hold it to the end of the block. Nothing on PostgreSQL."""
    path = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite" or connection.in_atomic_block or ":memory:" in path or path.startswith("file:"):
        yield
        return
    file = _file(path)
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _file(database: str) -> int:
    """This thread's own opening of the lock file: openings exclude one another, threads of one opening would not."""
    key = (os.getpid(), database)
    if getattr(_held, "key", None) != key:
        _held.key, _held.file = key, _Opening(f"{database}-writers")
    return _held.file.number


class _Opening:
    """Closed with the thread that made it."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)

    def __del__(self) -> None:
        os.close(self.number)
