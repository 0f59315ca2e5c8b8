"""Processes that measure on one throw-away database: they are made ready, released together, and asked what they found.

A child (`manage.py bench --inside …`) says "ready", waits for a line, works, writes its answer as one line of JSON, and
stays until it is told to leave, so that what it used on the server can be read.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
from django.conf import settings

# How benchmark/settings.py learns whose settings it is to extend.
MEASURED = "CAYU_BENCH_SETTINGS"
LIMIT_SECONDS = 900.0
START_SECONDS = 30.0
STOP_SECONDS = 20.0
# What the shell around may say about a deployment; a child hears nothing of it.
NOT_INHERITED = ("CAYU_", "DATABASE_", "REDIS_", "DJANGO_", "TEST_", "SECRET_KEY", "DEBUG", "ALLOWED_HOSTS", "CSRF_")


class BenchFailed(Exception):
    """A process of the benchmark failed; the message holds the last lines it wrote."""


@dataclass(slots=True)
class Ground:
    """One throw-away database, and how processes are started on it. `server_pid`: the process above all that serve it,
    if it runs on this machine.
    """

    url: str
    version: str = ""
    server_pid: int | None = None
    key: str = field(default_factory=lambda: secrets.token_urlsafe(50))

    def environment(self, process: str = "") -> dict[str, str]:
        """What a child reads: this database, the measured project's defaults, nothing of the deployment's."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
        return inherited | {
            "CAYU_ALLOW_SQLITE": "1",
            "CAYU_ENV_FILE": "",
            "CAYU_PROCESS": process,
            "DATABASE_URL": self.url,
            "DJANGO_SETTINGS_MODULE": "cayu_runtime.benchmark.settings",
            MEASURED: os.environ["DJANGO_SETTINGS_MODULE"],
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "SECRET_KEY": self.key,
        }

    def command(self, *arguments: str) -> None:
        """Run one management command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "django", *arguments],
            env=self.environment(), capture_output=True, text=True, timeout=LIMIT_SECONDS,
        )  # fmt: skip
        if done.returncode:
            raise BenchFailed(f"`manage.py {' '.join(arguments)}` failed:\n{done.stderr.strip()[-2000:]}")

    def measure(self, name: str, *, process: str = "worker", **given: Any) -> Any:
        """The answer of one process."""
        with self.ready(1, name, process=process, **given) as children:
            return children.release()[0]

    @contextmanager
    def ready(self, count: int, name: str, *, process: str = "worker", **given: Any) -> Iterator[Children]:
        """Processes that have made themselves ready for one measurement and wait to be released."""
        with ExitStack() as stack:
            made = [stack.enter_context(_Child(name, given, self.environment(process))) for _ in range(count)]
            for child in made:
                child.expect_ready()
            yield Children(made)

    @contextmanager
    def worker(self) -> Iterator[psutil.Process]:
        """A real `manage.py worker`, stopped as a service manager would, and not left behind."""
        with self._running("worker", [sys.executable, "-m", "django", "worker"], self.environment()) as tree:
            yield tree

    @contextmanager
    def web(self) -> Iterator[int]:
        """A real web server of two processes that refuses none for their number; its port on this machine."""
        port = _free_port()
        application = ":".join(settings.ASGI_APPLICATION.rsplit(".", 1))
        options = ["--port", str(port), "--lifespan", "off", "--no-access-log", "--workers", "2"]
        no_limit = dict.fromkeys(("CAYU_API_READS", "CAYU_API_WRITES"), str(10**6))
        with self._running(
            "web", [sys.executable, "-m", "uvicorn", application, *options], self.environment("web") | no_limit
        ) as tree:
            _wait_until_listening(port, tree)
            yield port

    @contextmanager
    def _running(self, name: str, argv: list[str], environment: dict[str, str]) -> Iterator[psutil.Process]:
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            tree = psutil.Process(process.pid)
            try:
                yield tree
            finally:
                over = process.poll() is not None
                _stop(process, tree)
                if over:  # then that is the reason for whatever else went wrong
                    raise BenchFailed(f"The {name} ended by itself:\n{_tail(log)}")


@dataclass(slots=True)
class Children:
    """Processes that are ready."""

    children: list[_Child]

    def release(self) -> list[Any]:
        """Let them begin at once; their answers, in order."""
        for child in self.children:
            child.tell()
        return [child.answer() for child in self.children]


class _Child:
    def __init__(self, name: str, given: Mapping[str, Any], environment: dict[str, str]) -> None:
        self._name = name
        self._arguments = [sys.executable, "-m", "django", "bench", "--inside", name, "--given", json.dumps(given)]
        self._environment = environment

    def __enter__(self) -> _Child:
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._arguments,
            env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        self._limit = threading.Timer(LIMIT_SECONDS, self._process.kill)
        self._limit.daemon = True
        self._limit.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._limit.cancel()
        if exc[0] is not None:
            self._process.kill()
        self._process.communicate()
        self._log.close()

    def expect_ready(self) -> None:
        self._line()

    def tell(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        return json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchFailed(f"The measurement {self._name!r} failed:\n{_tail(self._log)}")
        return line


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait_until_listening(port: int, process: psutil.Process) -> None:
    """Returns as well when the process ended; the measurement then says that nobody answers."""
    give_up = time.monotonic() + START_SECONDS
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < give_up:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)


def _tail(log: Any) -> str:
    log.seek(0)
    text: str = log.read().decode(errors="replace").strip()
    return text[-2000:]


def _stop(process: subprocess.Popen[bytes], tree: psutil.Process) -> None:
    started = [tree, *tree.children(recursive=True)] if process.poll() is None else []
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(started, timeout=2)
    for left in alive:
        left.kill()


class Bystanders:
    """What share of the machine's cores is taken, from now on, by work that is not ours."""

    def __init__(self) -> None:
        self._began = _spent()

    def share(self) -> float:
        seconds, busy, ours = (now - then for now, then in zip(_spent(), self._began, strict=True))
        return max(0.0, busy - ours) / (seconds * (psutil.cpu_count() or 1))


def _spent() -> tuple[float, float, float]:
    """Seconds on the clock, CPU seconds of all processes (what a host kept from the machine too), and of ours."""
    times = psutil.cpu_times()
    not_work = ("idle", "iowait", "guest", "guest_nice")  # guests stand in user and nice already
    busy = sum(times) - sum(getattr(times, name, 0.0) for name in not_work)
    return time.monotonic(), busy, cpu_seconds(psutil.Process())


def cpu_seconds(root: psutil.Process) -> float:
    """CPU time of a process and all below it, those that ended and were waited for included."""
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        try:
            used = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total
