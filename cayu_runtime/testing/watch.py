"""What this process does beside computing, as Python's own audit events tell it: connections, files, processes.

An audit hook can't be taken away again, so there is one, which does nothing while nobody watches. Code written in C
that opens files or sockets by itself (a database driver) raises no event and is not seen.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = frozenset({"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"})
PROCESSES = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn"}
)
CONNECTIONS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
NAMES = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})

Heard = Callable[[str, str], None]
"""Told of each thing done: its kind and what it is about. May raise.

Kinds: `connection` to an address of the network, `local` to a socket of this machine, `name` looked up, `file` opened
for writing or changed, `process` started.
"""

_watchers: list[Heard] = []
_in_hook = threading.local()


@contextmanager
def watching(heard: Heard) -> Iterator[None]:
    """Tell `heard` of everything that any thread of this process does, in that thread, before it is done."""
    _install()
    _watchers.append(heard)
    try:
        yield
    finally:
        _watchers.remove(heard)


@lru_cache(maxsize=1)
def _install() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _watchers or getattr(_in_hook, "busy", False):
        return
    _in_hook.busy = True
    try:
        seen = _seen(event, args)
        if seen is not None:
            for heard in list(_watchers):
                heard(*seen)
    finally:
        _in_hook.busy = False


def _seen(event: str, args: tuple[Any, ...]) -> tuple[str, str] | None:
    if event == "open":
        path, _, flags = args
        written = isinstance(flags, int) and flags & WRITES and not isinstance(path, int)
        return _file(path) if written else None
    if event in CHANGES:
        return _file(args[1] if event in ("os.rename", "os.link", "os.symlink") else args[0])
    if event in CONNECTIONS:
        return _connection(*args)
    if event in NAMES:
        return "name", str(args[0])
    if event in PROCESSES:
        return "process", str(args[0]) if args else event
    return None


def _file(path: Any) -> tuple[str, str] | None:
    """None for what the interpreter writes for itself, and for what swallows everything."""
    if not isinstance(path, str | bytes | os.PathLike):
        return None
    name = os.fsdecode(path)
    ours = "__pycache__" in name or name == os.devnull
    return None if ours else ("file", str(Path(name).absolute()))


def _connection(own: Any, address: Any = None) -> tuple[str, str] | None:
    family = getattr(own, "family", None)
    if family == getattr(socket, "AF_UNIX", None):
        return "local", f"unix:{os.fsdecode(address)}" if isinstance(address, str | bytes) else "unix"
    if family not in (socket.AF_INET, socket.AF_INET6):
        return None
    return "connection", ":".join(map(str, address[:2])) if isinstance(address, tuple) else "an open socket's peer"
