"""How `manage.py up` ends what it started: real processes, real signals."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cayu_project.demo.folder import Folder
from cayu_project.demo.processes import (
    Child,
    Children,
    ProcessError,
    StopSignals,
    end_leftovers,
    identity,
    port_problem,
)
from cayu_project.management.commands.up import _check_ports

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux: PDEATHSIG and /proc")


ROOT = Path(__file__).resolve().parents[2]

# Each says "ready" with its own process id and, where there is one, its child's.
POLITE = "import os, signal; print('ready', os.getpid(), flush=True); signal.pause()"
STUBBORN = (
    "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('ready', os.getpid(), flush=True)\nwhile True: signal.pause()"
)
NOTING = (
    "import os, signal, sys\n"
    "def end(*_):\n  open(sys.argv[2], 'a').write(sys.argv[1] + '\\n'); sys.exit(0)\n"
    "signal.signal(signal.SIGTERM, end); print('ready', os.getpid(), flush=True); signal.pause()"
)
PARENT = (
    "import os, signal, subprocess, sys\n"
    "own_session = sys.argv[1] == 'own_session'\n"
    f"child = subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], start_new_session=own_session,"
    " stdout=subprocess.PIPE)\n"
    "child.stdout.readline(); print('ready', os.getpid(), child.pid, flush=True); signal.pause()"
)

# Starts the children that its arguments name (as JSON: [[name, argv], …]), says so, and watches them.
UP = """
import json, os, sys
from pathlib import Path
from cayu_project.demo.folder import Folder
from cayu_project.demo.processes import Children, ProcessError, Stopped, StopSignals
folder, code = Folder(Path(sys.argv[1])), 0
with StopSignals().caught() as stop, folder.held():
    children = Children(folder, os.environ, stop, Path.cwd())
    try:
        for name, argv in json.loads(sys.argv[2]):
            child = children.start(name, argv, grace=float(sys.argv[3]))
            children.wait_until(lambda: "ready" in child.last_lines(), child, 20)
        print("started", flush=True)
        children.watch()
    except Stopped:
        print("stopped", flush=True)
    except ProcessError as problem:
        print(problem, flush=True)
        code = 1
    finally:
        children.end_all()
sys.exit(code)
"""


def python(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", script, *arguments]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "var")


@pytest.fixture
def start_up(folder: Folder) -> Iterator[Callable[..., "Up"]]:
    started: list[Up] = []

    def start(*children: tuple[str, list[str]], grace: float = 20) -> Up:
        started.append(Up(folder, children, grace))
        return started[-1]

    yield start
    for up in started:
        up.clean_up()


class Up:
    """A process that runs children as `manage.py up` does."""

    def __init__(self, folder: Folder, children: tuple[tuple[str, list[str]], ...], grace: float) -> None:
        self.folder = folder
        argv = python(UP, str(folder.path), json.dumps(children), str(grace))
        self.process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "started\n"
        self.known = {pid: identity(pid) for name, _ in children for pid in self._pids(name)}

    def _pids(self, name: str) -> list[int]:
        ready = [line for line in (self.folder.path / f"{name}.log").read_text().splitlines() if "ready" in line]
        return [int(pid) for pid in ready[-1].split()[1:]]

    def alive(self) -> list[int]:
        return [pid for pid, who in self.known.items() if who is not None and identity(pid) == who]

    def wait(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=30)
        return self.process.returncode, output

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def clean_up(self) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "It did not come true in time."
        time.sleep(0.01)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_ends_all(start_up: Callable[..., Up], signum: signal.Signals) -> None:
    up = start_up(("ledger", python(POLITE)), ("web", python(POLITE)))
    assert len(up.alive()) == 2
    up.process.send_signal(signum)
    assert up.wait() == (0, "stopped\n")
    assert up.alive() == []
    assert not up.folder.pids_file.exists()


def test_the_last_started_ends_first(start_up: Callable[..., Up], tmp_path: Path) -> None:
    note = str(tmp_path / "note")
    names = ["ledger", "worker", "web"]
    up = start_up(*[(name, python(NOTING, name, note)) for name in names])
    up.process.send_signal(signal.SIGTERM)
    assert up.wait()[0] == 0
    assert Path(note).read_text().split() == ["web", "worker", "ledger"]


def test_who_ignores_the_signal_is_killed(start_up: Callable[..., Up]) -> None:
    up = start_up(("worker", python(STUBBORN)), grace=0.1)
    up.process.send_signal(signal.SIGINT)
    assert up.wait() == (0, "stopped\n")
    assert up.alive() == []


def test_a_second_signal_does_not_cut_the_end_short(start_up: Callable[..., Up], tmp_path: Path) -> None:
    note = str(tmp_path / "note")
    up = start_up(("ledger", python(NOTING, "ledger", note)), ("worker", python(STUBBORN)), grace=0.5)
    up.process.send_signal(signal.SIGINT)
    assert up.process.stdout is not None
    assert up.process.stdout.readline() == "stopped\n"
    up.process.send_signal(signal.SIGINT)
    assert up.wait()[0] == 0
    assert Path(note).read_text() == "ledger\n"
    assert up.alive() == []


@pytest.mark.parametrize("where", ["same_session", pytest.param("own_session", marks=on_linux)])
def test_what_a_child_left_behind_is_ended_too(start_up: Callable[..., Up], where: str) -> None:
    up = start_up(("worker", python(PARENT, where)))
    assert len(up.alive()) == 2
    up.process.send_signal(signal.SIGTERM)
    assert up.wait()[0] == 0
    assert up.alive() == []


def test_a_child_that_dies_is_named_and_the_others_end(start_up: Callable[..., Up]) -> None:
    up = start_up(("web", python(POLITE)), ("worker", python(POLITE)))
    os.kill(up._pids("worker")[0], signal.SIGKILL)
    code, output = up.wait()
    assert code == 1
    assert output.startswith("The process worker was killed by signal 9. The last lines of ")
    assert "  ready" in output
    assert up.alive() == []


@on_linux
def test_nobody_outlives_a_killed_parent(start_up: Callable[..., Up]) -> None:
    up = start_up(("ledger", python(POLITE)), ("web", python(POLITE)))
    up.kill()
    wait_for(lambda: up.alive() == [])


def test_the_next_start_ends_who_outlived_a_killed_parent(start_up: Callable[..., Up], folder: Folder) -> None:
    up = start_up(("ledger", python(STUBBORN)), ("worker", python(STUBBORN)))
    up.kill()
    assert len(up.alive()) == 2
    with folder.held():
        assert end_leftovers(folder, grace=0.1) == 2
        assert up.alive() == []
        assert end_leftovers(folder, grace=0.1) == 0


@on_linux
def test_the_next_start_finds_what_a_killed_child_left(start_up: Callable[..., Up], folder: Folder) -> None:
    up = start_up(("worker", python(PARENT, "own_session")))
    up.kill()
    wait_for(lambda: len(up.alive()) == 1)
    with folder.held():
        assert end_leftovers(folder, grace=0.1) == 1
    assert up.alive() == []


def test_a_number_that_was_given_to_somebody_else_is_left_alone(folder: Folder) -> None:
    with folder.held(), subprocess.Popen(python(POLITE), stdout=subprocess.DEVNULL) as stranger:
        folder.pids_file.write_text(json.dumps({str(stranger.pid): "another boot 1", "0": None}))
        assert end_leftovers(folder, grace=0.1) == 0
        assert stranger.poll() is None
        stranger.kill()


def test_a_torn_list_of_processes_is_no_obstacle(folder: Folder) -> None:
    with folder.held():
        folder.pids_file.write_text("{")
        assert end_leftovers(folder, grace=0.1) == 0


def test_another_folders_processes_are_left_alone(start_up: Callable[..., Up], tmp_path: Path) -> None:
    up = start_up(("web", python(POLITE)))
    other = Folder(tmp_path / "va")
    with other.held():
        assert end_leftovers(other, grace=0.1) == 0
    assert len(up.alive()) == 1


def test_an_ended_process_has_no_identity() -> None:
    assert identity(os.getpid()) == identity(os.getpid()) is not None
    process = subprocess.Popen(python(""))
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and still in the process table
    assert identity(process.pid) is None
    process.wait()
    assert identity(process.pid) is None


@pytest.fixture
def children(folder: Folder) -> Iterator[Children]:
    with folder.held():
        children = Children(folder, os.environ, StopSignals(), ROOT)
        yield children
        children.end_all()


def log(folder: Folder, name: str) -> str:
    return (folder.path / f"{name}.log").read_text()


def test_a_step_runs_to_its_end(children: Children, folder: Folder) -> None:
    children.run("migrate", python("print('done')"))
    assert log(folder, "migrate") == "done\n"
    assert json.loads(folder.pids_file.read_text()) == {}


def test_a_step_that_fails_shows_what_it_said(children: Children) -> None:
    with pytest.raises(ProcessError, match=r"The process migrate ended with exit code 3\. The last lines of .*\n  no$"):
        children.run("migrate", python("print('no'); raise SystemExit(3)"))


def test_only_the_end_of_this_runs_log_is_shown(children: Children) -> None:
    children.run("migrate", python("print('earlier')"))
    with pytest.raises(ProcessError) as caught:
        children.run("migrate", python("[print('line', n) for n in range(5000)]; raise SystemExit(1)"))
    assert "earlier" not in str(caught.value)
    assert str(caught.value).endswith("  line 4999")
    assert str(caught.value).count("\n") == 15
    with pytest.raises(ProcessError, match="It wrote nothing to "):
        children.run("migrate", python("raise SystemExit(1)"))


def test_an_extra_variable_reaches_one_process_alone(children: Children, folder: Folder) -> None:
    show = "import os; print(os.environ.get('SECRET_WORD'))"
    children.run("one", python(show), extra={"SECRET_WORD": "hush"})
    children.run("other", python(show))
    assert (log(folder, "one"), log(folder, "other")) == ("hush\n", "None\n")


def test_files_of_the_children_are_private(children: Children, folder: Folder) -> None:
    children.run("one", python("import sys; open(sys.argv[1], 'w').close()", str(folder.path / "made")))
    assert (folder.path / "made").stat().st_mode & 0o777 == 0o600


def test_waiting_ends_when_the_process_does(children: Children) -> None:
    child = children.start("web", python("print('port taken')"))
    with pytest.raises(ProcessError, match=r"The process web ended with exit code 0(.|\n)*port taken"):
        children.wait_until(lambda: False, child, 20)


def test_waiting_ends_when_the_time_is_over(children: Children) -> None:
    child: Child = children.start("web", python(POLITE))
    with pytest.raises(ProcessError, match="The process web did not answer within 0 seconds"):
        children.wait_until(lambda: False, child, 0.01)


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_busy_port_has_a_reason_and_a_free_one_none(busy_port: int, free_port: int) -> None:
    assert port_problem("127.0.0.1", busy_port) == "Address already in use"
    assert port_problem("127.0.0.1", free_port) is None
    assert port_problem("no.such.host.invalid", free_port) is not None


def test_a_busy_port_gets_a_sentence_that_names_the_option(busy_port: int, free_port: int) -> None:
    with pytest.raises(ProcessError, match=rf"^Port {busy_port} on 127\.0\.0\.1 .* Choose another with --port\.$"):
        _check_ports("127.0.0.1", busy_port, free_port)
    with pytest.raises(ProcessError, match=rf"^Port {busy_port} .* Choose another with --ledger-port\.$"):
        _check_ports("127.0.0.1", free_port, busy_port)
    with pytest.raises(ProcessError, match=rf"cannot share port {free_port}"):
        _check_ports("127.0.0.1", free_port, free_port)
    _check_ports("127.0.0.1", free_port, _another(free_port))


def _another(port: int) -> int:
    with socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
