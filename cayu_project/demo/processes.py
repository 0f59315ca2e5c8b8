"""Child processes that start, are watched and end together, and never outlive the one that started them.

Each child leads a session and a process group of its own, so that a Ctrl-C at the terminal reaches the parent alone,
which then ends them in the reverse order of their start. Should the parent be killed, Linux sends each child a SIGTERM;
what is still left then (always, on other systems) is found and ended by the next start, see `end_leftovers`.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from cayu_project.demo.folder import Folder, write_private

POLL_SECONDS = 0.05
KILL_SECONDS = 5.0
ORPHAN_SECONDS = 2.0
LAST_LINES, LAST_BYTES = 15, 16 * 1024
PR_SET_PDEATHSIG = 1
# In the environment of every child, and so of all that it starts: the folder it belongs to.
MARK = "CAYU_UP_FOLDER"


class ProcessError(Exception):
    """The message is for the person at the shell: which process, what happened, the last lines of its log."""


class Stopped(Exception):
    """A signal asked for the end."""


class StopSignals:
    """SIGINT, SIGTERM and SIGHUP set a flag, which every wait here looks at. Further ones change nothing."""

    def __init__(self) -> None:
        self.received = False

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        self.received = True

    @contextmanager
    def caught(self) -> Iterator["StopSignals"]:
        signums = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {signum: signal.signal(signum, self._receive) for signum in signums}
        try:
            yield self
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)


@dataclass
class Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int
    grace: float

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def obituary(self) -> str:
        code = self.process.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"The process {self.name} {how}. {self.last_lines()}"

    def last_lines(self) -> str:
        """The end of what this run wrote; the log may begin with earlier runs."""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.log_start, size - LAST_BYTES))
            lines = file.read().decode(errors="replace").splitlines()[-LAST_LINES:]
        if not lines:
            return f"It wrote nothing to {self.log}."
        return "\n".join([f"The last lines of {self.log}:", *(f"  {line}" for line in lines)])

    def end(self) -> None:
        """SIGTERM, time to finish, then SIGKILL for whatever is left of the group."""
        if not self.has_ended:
            self.process.terminate()
            deadline = time.monotonic() + self.grace
            while not self.has_ended and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        _kill_group(self.process.pid)
        self.process.wait()


class Children:
    """All that one `up` has started. Their logs and the list of their process ids lie in the folder."""

    def __init__(self, folder: Folder, environment: Mapping[str, str], stop: StopSignals, cwd: Path) -> None:
        self.folder = folder
        self.environment = {**environment, MARK: str(folder.path)}
        self.stop = stop
        self.cwd = cwd
        self._running: list[Child] = []

    def start(
        self, name: str, argv: list[str], *, grace: float = KILL_SECONDS, extra: Mapping[str, str] | None = None
    ) -> Child:
        """Start a process that runs until `end_all`. `extra` is environment for this one alone."""
        log = self.folder.path / f"{name}.log"
        with log.open("ab") as output:
            log_start = output.seek(0, os.SEEK_END)
            process = subprocess.Popen(
                argv,
                cwd=self.cwd,
                env={**self.environment, **(extra or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
                preexec_fn=_die_with_parent(),
            )
        child = Child(name, process, log, log_start, grace)
        self._running.append(child)
        self._record()
        return child

    def run(self, name: str, argv: list[str], *, extra: Mapping[str, str] | None = None) -> None:
        """Run a step to its end. Raises ProcessError if it fails."""
        step = self.start(name, argv, extra=extra)
        while not step.has_ended:
            self._pause()
        if step.process.returncode != 0:
            raise ProcessError(step.obituary())
        self._running.remove(step)
        self._record()

    def wait_until(self, is_ready: Callable[[], bool], child: Child, seconds: float) -> None:
        """Raises ProcessError if a child ends meanwhile, or if the time is over."""
        deadline = time.monotonic() + seconds
        while not is_ready():
            self._look_after_all()
            if time.monotonic() > deadline:
                late = f"The process {child.name} did not answer within {seconds:.0f} seconds."
                raise ProcessError(f"{late} {child.last_lines()}")
            self._pause()

    def watch(self) -> None:
        """Until a signal comes (Stopped) or a child ends (ProcessError)."""
        while True:
            self._look_after_all()
            self._pause()

    def end_all(self) -> None:
        """In the reverse order of their start: what is started first may be needed until the last moment."""
        for child in reversed(self._running):
            child.end()
        self._running.clear()
        end_leftovers(self.folder, KILL_SECONDS)

    def _look_after_all(self) -> None:
        for child in self._running:
            if child.has_ended:
                raise ProcessError(child.obituary())

    def _pause(self) -> None:
        if self.stop.received:
            raise Stopped
        time.sleep(POLL_SECONDS)

    def _record(self) -> None:
        pids = {str(child.process.pid): identity(child.process.pid) for child in self._running}
        write_private(self.folder.pids_file, json.dumps(pids))


def _die_with_parent() -> Callable[[], None] | None:
    """For the moment between fork and exec: have Linux send SIGTERM when the parent dies."""
    if not sys.platform.startswith("linux"):
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return prepare


def end_leftovers(folder: Folder, grace: float) -> int:
    """End what a killed `up`, or a killed child, has left in the folder, and say how many processes that were.

    A child is known by its process id together with its time of start, so that a number which the system has given
    to somebody else since is left alone. Where /proc shows environments, what the children started is found as well.
    Only the children get the SIGTERM, and `grace` to end themselves and what they started; orphans are to end by
    themselves. Who is left then is killed.
    """
    children = _recorded_children(folder)
    left = children | {pid: who for pid in _marked_pids(folder) if (who := identity(pid)) is not None}
    for pid in children:
        _send(pid, signal.SIGTERM)
    _still_there(children, grace)
    for pid in _still_there(left, ORPHAN_SECONDS):
        if pid in children:
            _kill_group(pid)
        _send(pid, signal.SIGKILL)
    _still_there(left, KILL_SECONDS)
    folder.pids_file.unlink(missing_ok=True)
    return len(left)


def _recorded_children(folder: Folder) -> dict[int, str]:
    try:
        recorded = json.loads(folder.pids_file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {int(pid): who for pid, who in recorded.items() if who is not None and identity(int(pid)) == who}


def _marked_pids(folder: Folder) -> set[int]:
    mark = f"{MARK}={folder.path}".encode()
    return {
        int(environ.parent.name)
        for environ in Path("/proc").glob("[0-9]*/environ")
        if mark in _environment(environ) and int(environ.parent.name) != os.getpid()
    }


def _still_there(processes: dict[int, str], seconds: float) -> list[int]:
    """Wait until all have ended, at most so long, and return those that have not."""
    deadline = time.monotonic() + seconds
    while (there := [pid for pid, who in processes.items() if identity(pid) == who]) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return there


def _environment(environ: Path) -> list[bytes]:
    try:
        return environ.read_bytes().split(b"\0")
    except OSError:  # gone meanwhile, or somebody else's
        return []


def identity(pid: int) -> str | None:
    """What tells a process from a later one with the same number; None if it has ended."""
    if Path("/proc/self/stat").exists():
        return _identity_by_proc(pid)
    ps = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = ps.stdout.strip().partition(" ")
    return started.strip() if state and not state.startswith("Z") else None


def _identity_by_proc(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # After the name, which is in brackets and may hold anything: field 3 is the state, field 22 the start in ticks.
    fields = stat.rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return None if fields[0] in "ZX" else f"{boot} {fields[19]}"


def _send(pid: int, signum: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signum)


def _kill_group(pgid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nobody is left in it; macOS says so with the second
        os.killpg(pgid, signal.SIGKILL)


def port_problem(host: str, port: int) -> str | None:
    """Why nobody can listen there now; None if one can."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do, which matters after a stop
            probe.bind((host, port))
    except OSError as problem:
        return problem.strerror or str(problem)
    return None
