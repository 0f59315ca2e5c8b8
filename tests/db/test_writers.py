"""On SQLite writers stand in one queue: one at a time, threads too; who is killed stands in nobody's way."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import OperationalError, connection, connections, transaction

from cayu_runtime.core.writers import turn

pytestmark = [pytest.mark.sqlite, pytest.mark.django_db(transaction=True)]
PATIENCE = 10.0


@contextmanager
def holder() -> Iterator[tuple[int, int]]:
    """A child process that has its turn: its pid, and a pipe that ends with it."""
    hears, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with turn():
                os.write(tells, b"!")
                signal.pause()
        finally:
            os._exit(0)
    os.close(tells)
    assert os.read(hears, 1) == b"!"
    try:
        yield pid, hears
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(hears)


def waiting_writer() -> tuple[threading.Thread, threading.Event]:
    entered = threading.Event()

    def write() -> None:
        with turn():
            entered.set()
        connections.close_all()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread, entered


def test_the_next_writer_waits_for_the_one_before_and_not_for_a_killed_one() -> None:
    with holder() as (pid, _):
        thread, entered = waiting_writer()
        assert not entered.wait(0.2), "two had their turn at one time"
        os.kill(pid, signal.SIGKILL)
        assert entered.wait(PATIENCE), "a killed writer kept its turn"
    thread.join(PATIENCE)


def test_threads_of_one_process_exclude_each_other() -> None:
    with turn():
        thread, entered = waiting_writer()
        assert not entered.wait(0.2)
    assert entered.wait(PATIENCE)
    thread.join(PATIENCE)


def test_a_thread_that_ends_closes_its_opening() -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_files()
    for _ in range(5):
        thread, _ = waiting_writer()
        thread.join(PATIENCE)
    assert open_files() == before


def test_a_turn_that_does_not_come_is_an_error_and_is_not_taken_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.2)
    with holder(), pytest.raises(OperationalError, match=r"for 0\.2 seconds"), turn():
        pytest.fail("two had their turn at one time")
    monkeypatch.undo()
    for thread in threading.enumerate():
        if thread.name == "turn to write":
            thread.join(PATIENCE)
    other, entered = waiting_writer()
    assert entered.wait(PATIENCE), "who gave up has the turn"
    other.join(PATIENCE)


def test_inside_a_transaction_there_is_no_second_turn() -> None:
    """It holds the database's own lock already: to wait here for somebody who waits for that would never end."""
    with holder(), transaction.atomic():
        assert connection.in_atomic_block
        done = threading.Event()
        with turn():
            done.set()
        assert done.is_set()
