"""`manage.py effects list | head`: a reader who has enough ends the printing, quietly, and not the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from django.core.management.base import BaseCommand

from cayu_runtime.errors import InvalidRequest
from cayu_runtime.management import shell

ROOT = Path(__file__).resolve().parents[2]
MANY = [f"effect {number}" for number in range(10_000)]
WAYS: list[dict[str, Any]] = [{"json": False}, {"json": True}]


@pytest.fixture
def unread() -> Iterator[TextIO]:
    """A pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        yield pipe


@pytest.mark.parametrize("lines", [MANY[:1], MANY], ids=["fits the buffer", "overflows it"])
@pytest.mark.parametrize("options", WAYS, ids=["text", "json"])
def test_a_reader_who_left_ends_the_printing_and_nothing_else(
    unread: TextIO, options: dict[str, Any], lines: list[str]
) -> None:
    command = BaseCommand(stdout=unread)
    shell.say(command, options, lines, lines)
    shell.say(command, options, lines, lines)  # goes nowhere, and breaks nothing
    with pytest.raises(SystemExit) as ended:
        shell.leave(shell.ATTENTION)
    assert ended.value.code == shell.ATTENTION


def test_a_refusal_that_nobody_reads_still_has_its_exit_code(unread: TextIO) -> None:
    with pytest.raises(SystemExit) as ended, shell.refusals(BaseCommand(stdout=unread), {"json": True}):
        raise InvalidRequest("No.")
    assert ended.value.code == shell.REFUSED


def test_a_whole_command_ends_without_a_traceback_and_with_its_own_code(tmp_path: Path, unread: TextIO) -> None:
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path}/none/none.sqlite3"}
    done = subprocess.run(
        [sys.executable, "manage.py", "doctor", "--all-tenants"],
        cwd=ROOT, env=environment, stdout=unread, stderr=subprocess.PIPE, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "")  # no database answers: BROKEN
