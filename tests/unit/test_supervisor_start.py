"""`manage.py worker` says in a sentence why it does not start; and a worker that lost its supervisor ends by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.rules import ROOT

UNMIGRATED = "sqlite:///{folder}/new.sqlite3"
NOBODY_THERE = "postgres://nobody@127.0.0.1:1/nothing"


@pytest.mark.parametrize(
    "database, says",
    [
        (NOBODY_THERE, "The database does not answer (connection failed: "),
        (UNMIGRATED, " migrations are not applied. Run `manage.py migrate` first."),
    ],
)
def test_without_its_database_it_ends_with_a_sentence(tmp_path: Path, database: str, says: str) -> None:
    environment = {**os.environ, "DATABASE_URL": database.format(folder=tmp_path), "CAYU_TEST_DURABILITY_OFF": "0"}
    ended = subprocess.run(
        [sys.executable, "manage.py", "worker"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=50
    )
    assert ended.returncode == 1
    assert says in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_agents_that_cannot_be_loaded_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.core.management import CommandError

    from cayu_runtime.management.commands.worker import Command, registry

    def broken() -> None:
        raise ValueError("Two agents are called 'refunds'. Give one of them another name.")

    monkeypatch.setattr(registry, "agents", broken)
    with pytest.raises(CommandError, match="The agents cannot be loaded: ValueError: Two agents are called 'refunds'"):
        Command()._require_agents()


ORPHAN = """
import os, sys, time
import django
os.setsid()
django.setup()
from cayu_runtime.worker.duty import current
ours, theirs = os.pipe()
os.set_blocking(theirs, False)
current.enter(theirs, os.getppid(), float(sys.argv[1]))
current._begin()
os.close(ours)
while not current.leaving:
    time.sleep(0.01)
print("leaves", flush=True)
sys.stdin.readline()
current._end()
time.sleep(60)
"""


@pytest.mark.parametrize("drain, ends", [(60, "with its task"), (0, "when its time is over")])
def test_a_worker_whose_beats_nobody_reads_leaves_and_ends_its_whole_cluster(drain: int, ends: str) -> None:
    """The way for systems that do not tell a process of its parent's death."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "cayu_project.settings"}
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(drain)],
        cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as orphan:  # fmt: skip
        assert orphan.stdout is not None
        assert orphan.stdin is not None
        assert orphan.stdout.readline() == "leaves\n"
        if ends == "with its task":
            with pytest.raises(subprocess.TimeoutExpired):
                orphan.wait(1.2)
            orphan.stdin.write("\n")
            orphan.stdin.flush()
        assert orphan.wait(10) == -9
