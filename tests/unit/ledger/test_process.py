"""The demo ledger as a process of its own: signals, kills, busy ports."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cayu_project.demo.ledger import Server
from cayu_project.demo.ledger_file import Ledger
from tests.unit.ledger.observer import BODY, ROOT, book


class Process:
    """The ledger as its own process on a port of its choice."""

    def __init__(self, db: Path) -> None:
        argv = [sys.executable, "-m", "cayu_project.demo.ledger", "--db", str(db), "--port", "0"]
        self.popen = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.popen.stdout is not None
        self.line = self.popen.stdout.readline()
        self.url = self.line.rpartition(" ")[2].strip()
        self.client = httpx.Client(base_url=self.url, trust_env=False)

    def close(self) -> None:
        self.client.close()
        self.popen.kill()
        self.popen.wait()
        assert self.popen.stdout is not None
        self.popen.stdout.close()


@pytest.fixture
def process(db: Path) -> Iterator[Process]:
    process = Process(db)
    yield process
    process.close()


def test_says_where_it_listens(process: Process) -> None:
    assert process.line.startswith("ledger listening on http://127.0.0.1:")
    assert process.client.get("/health").status_code == 200


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_ends_cleanly_on_a_signal(process: Process, signum: signal.Signals) -> None:
    process.popen.send_signal(signum)
    assert process.popen.wait(10) == 0


def test_a_signal_sends_the_slow_answer_out_first(process: Process, db: Path) -> None:
    port = int(process.url.rpartition(":")[2])
    content = json.dumps(BODY).encode()
    head = (
        f"POST /refunds HTTP/1.1\r\nIdempotency-Key: k1\r\nX-Ledger-Fault: slow:100\r\nContent-Length: {len(content)}"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + content)
        _until_booked(process.client)
        process.popen.send_signal(signal.SIGTERM)
        assert b" 201 " in connection.makefile("rb").readline()
    assert process.popen.wait(10) == 0


def _until_booked(client: httpx.Client) -> None:
    for _ in range(10_000):
        if client.get("/refunds", params={"key": "k1"}).status_code == 200:
            return
    raise AssertionError("The refund was not booked.")


def test_what_was_answered_survives_a_kill(process: Process, db: Path) -> None:
    refund = book(process.client).json()
    os.kill(process.popen.pid, signal.SIGKILL)
    process.popen.wait()
    again = Process(db)
    try:
        assert book(again.client).json() == refund | {"replayed": True}
    finally:
        again.close()


def test_a_kill_before_the_commit_leaves_nothing(db: Path) -> None:
    """A writer that dies inside its transaction: the next one sees no trace and is not blocked."""
    Ledger(db)
    script = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('BEGIN IMMEDIATE')\n"
        "c.execute(\"INSERT INTO refunds VALUES ('rf_1', 'k1', '1042', '25.50', 'damaged', 'now')\")\n"
        "print('written', flush=True)\n"
        "sys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", script, str(db)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        writer.kill()
    assert Ledger(db).look_up("k1") == (None, False)
    assert Ledger(db).bar("k1") is None


def run_main(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "cayu_project.demo.ledger", *arguments]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=20)


def test_a_busy_port_gets_one_sentence(server: Server, tmp_path: Path) -> None:
    result = run_main("--db", str(tmp_path / "other.sqlite3"), "--port", str(server.server_port))
    assert result.returncode == 2
    assert result.stderr.strip().count("\n") == 0
    assert f"127.0.0.1:{server.server_port}" in result.stderr
    assert result.stdout == ""


def test_an_unusable_file_gets_one_sentence(tmp_path: Path) -> None:
    result = run_main("--db", str(tmp_path / "missing" / "ledger.sqlite3"), "--port", "0")
    assert result.returncode == 2
    assert result.stderr.strip().count("\n") == 0
