"""What stands downstream: a file of its own that knows what arrived and what was booked, and asks no database of ours.

It refuses a second booking under one key, and every booking under a key that was barred. Each writer commits before it
answers, so that a process which is killed afterwards leaves what it did.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLES = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE requests (
        id INTEGER PRIMARY KEY, operation TEXT, key TEXT, dispatch TEXT, tool TEXT, arguments TEXT, pid INTEGER,
        ended INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE bookings (id INTEGER PRIMARY KEY, key TEXT UNIQUE, operation TEXT, arguments TEXT);
    CREATE TABLE bars (key TEXT PRIMARY KEY);
"""


class Barred(Exception):
    """This key will never be booked."""


@dataclass(frozen=True, slots=True)
class Request:
    operation: str
    key: str
    dispatch: str
    tool: str
    arguments: Any
    ended: bool


@dataclass(frozen=True, slots=True)
class Booking:
    number: int
    key: str
    operation: str
    arguments: Any


class Downstream:
    """`quiet` is held by whoever writes: a process that stops itself takes it first, so that it holds no lock of the
    file while it stands still.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.quiet = threading.Lock()

    def create(self) -> None:
        file = sqlite3.connect(self.path)
        file.executescript(TABLES)
        file.close()

    def empty(self) -> None:
        with self._open() as file:
            for table in ("requests", "bookings", "bars"):
                file.execute(f"DELETE FROM {table}")

    def arrive(self, operation: str, key: str, dispatch: str, tool: str, arguments: Any) -> int:
        """One request is here, whatever comes of it."""
        row = (operation, key, dispatch, tool, json.dumps(arguments, sort_keys=True), os.getpid())
        with self._open() as file:
            sql = "INSERT INTO requests (operation, key, dispatch, tool, arguments, pid) VALUES (?, ?, ?, ?, ?, ?)"
            return int(file.execute(sql, row).lastrowid or 0)

    def end(self, number: int) -> None:
        with self._open() as file:
            file.execute("UPDATE requests SET ended = 1 WHERE id = ?", (number,))

    def book(self, operation: str, key: str, arguments: Any) -> Booking:
        """Book once under this key; the same key again gets the recorded booking. Raises Barred."""
        with self._open() as file:
            if file.execute("SELECT 1 FROM bars WHERE key = ?", (key,)).fetchone():
                raise Barred(key)
            row = (key, operation, json.dumps(arguments, sort_keys=True))
            file.execute("INSERT OR IGNORE INTO bookings (key, operation, arguments) VALUES (?, ?, ?)", row)
        found = self.find(key)
        assert found is not None
        return found

    def find(self, key: str) -> Booking | None:
        return next((one for one in self.bookings() if one.key == key), None)

    def bar(self, key: str) -> bool:
        """Never book under this key. False: it is booked already."""
        with self._open() as file:
            if file.execute("SELECT 1 FROM bookings WHERE key = ?", (key,)).fetchone():
                return False
            file.execute("INSERT OR IGNORE INTO bars VALUES (?)", (key,))
            return True

    def requests(self) -> list[Request]:
        with self._open() as file:
            rows = file.execute("SELECT operation, key, dispatch, tool, arguments, ended FROM requests ORDER BY id")
            return [
                Request(operation, key, dispatch, tool, json.loads(arguments), bool(ended))
                for operation, key, dispatch, tool, arguments, ended in rows.fetchall()
            ]

    def bookings(self) -> list[Booking]:
        with self._open() as file:
            rows = file.execute("SELECT id, key, operation, arguments FROM bookings ORDER BY id").fetchall()
            return [Booking(number, key, operation, json.loads(text)) for number, key, operation, text in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """One transaction of one writer at a time."""
        with self.quiet:
            file = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            try:
                file.execute("PRAGMA synchronous = OFF")
                file.execute("BEGIN IMMEDIATE")
                yield file
                file.execute("COMMIT")
            finally:
                file.close()
