"""`manage.py up` as a process of a test: started, watched, ended, killed."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cayu_project.demo.processes import identity

ROOT = Path(__file__).resolve().parents[2]


class Up:
    def __init__(self, var: Path, port: int, ledger_port: int) -> None:
        self.var, self.web, self.ledger = var, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{ledger_port}"
        environment = {name: value for name, value in os.environ.items() if name not in ("SECRET_KEY", "DATABASE_URL")}
        argv = [sys.executable, "manage.py", "up", "--var", str(var)]
        argv += ["--port", str(port), "--ledger-port", str(ledger_port)]
        self.process = subprocess.Popen(
            argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.children: dict[int, str] = {}
        self.said = ""

    def until_ready(self) -> "Up":
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if line.startswith("Ctrl-C ends all"):
                self.children = {int(pid): who for pid, who in json.loads((self.var / "pids.json").read_text()).items()}
                assert len(self.children) == 3
                return self
        raise AssertionError(f"It ended with {self.process.wait()}:\n{self.said}")

    def password(self, name: str) -> str:
        found = re.search(rf"^ +{name} +(\S+)$", self.said, re.MULTILINE)
        assert found, self.said
        return found[1]

    def child(self, name: str) -> int:
        order = ["ledger", "worker", "web"]
        return list(self.children)[order.index(name)]

    def end(self, signum: signal.Signals | None = None) -> tuple[int, str]:
        if signum is not None:
            self.process.send_signal(signum)
        output, _ = self.process.communicate(timeout=40)
        return self.process.returncode, output

    def left(self) -> list[int]:
        return [pid for pid, who in self.children.items() if identity(pid) == who]

    def clean_up(self) -> None:
        self.process.kill()
        self.process.communicate()
        for pid in self.left():
            os.killpg(pid, signal.SIGKILL)


@pytest.fixture
def ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


@pytest.fixture
def start_up(tmp_path: Path, ports: tuple[int, int]) -> Iterator[Callable[[], Up]]:
    started: list[Up] = []

    def start() -> Up:
        started.append(Up(tmp_path / "var", *ports))
        return started[-1]

    yield start
    for up in started:
        up.clean_up()
