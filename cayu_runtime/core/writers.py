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

from django.db import OperationalError, connection

WAIT_SECONDS = 20.0  # where the database names no busy timeout

_held = threading.local()


@contextmanager
def turn() -> Iterator[None]:
    """Wait for this thread's turn to write, and hold it to the end of the block. Nothing on PostgreSQL.

    Raises OperationalError when the turn does not come within the database's own busy timeout.
    """
    path = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite" or connection.in_atomic_block or ":memory:" in path or path.startswith("file:"):
        yield
        return
    file = _file(path)
    try:
        fcntl.flock(file.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _wait_for(file, path)
    try:
        yield
    finally:
        fcntl.flock(file.number, fcntl.LOCK_UN)


def _wait_for(file: _Opening, path: str) -> None:
    """The kernel knows no waiting with a limit, so a thread waits in it. A turn that comes too late is given back."""
    seconds = float(connection.settings_dict["OPTIONS"].get("timeout", WAIT_SECONDS))
    came, over, one = threading.Event(), threading.Event(), threading.Lock()

    def give_back() -> None:
        if came.is_set() and over.is_set():
            fcntl.flock(file.number, fcntl.LOCK_UN)

    def wait() -> None:
        fcntl.flock(file.number, fcntl.LOCK_EX)
        with one:
            came.set()
            give_back()

    threading.Thread(target=wait, daemon=True, name="turn to write").start()
    in_time = False
    try:
        in_time = came.wait(seconds)
    finally:
        if not in_time:
            with one:
                over.set()
                give_back()
            _held.key = _held.file = None  # the thread has that opening; the next turn makes a new one
    if not in_time:
        raise OperationalError(
            f"Another writer has held {path}-writers for {seconds:g} seconds. See which process has that file open, "
            "and end it; or use PostgreSQL, where writers do not stand in one queue."
        )


def _file(database: str) -> _Opening:
    """This thread's own opening of the lock file: openings exclude one another, threads of one opening would not."""
    key = (os.getpid(), database)
    if getattr(_held, "key", None) != key:
        _held.key, _held.file = key, _Opening(f"{database}-writers")
    file: _Opening = _held.file
    return file


class _Opening:
    """Closed with the thread that made it."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)

    def __del__(self) -> None:
        os.close(self.number)
