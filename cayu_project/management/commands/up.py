"""`manage.py up`: the whole demo on this machine, from nothing, with one command."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from django.core.management.base import BaseCommand

import cayu_project
from cayu_project.demo.folder import Folder, FolderError, Secrets
from cayu_project.demo.processes import Children, ProcessError, Stopped, StopSignals, end_leftovers, port_problem

ROOT = Path(cayu_project.__file__).resolve().parent.parent
READY_SECONDS = 60.0
DRAIN_SECONDS = 10
# Of what stands in the shell's environment, these would lead the demo away from its folder or make it less durable.
NOT_INHERITED = ("REDIS_URL", "DATABASE_LISTEN_URL", "CAYU_PROCESS", "CAYU_TEST_DURABILITY_OFF")

WELCOME = """
Cayu is running at {web}/

    sign in as   password
    requester    {requester}
    approver     {approver}

1. As requester, open {web}/start/ and type:
       refund order 1042 25.50 because damaged
2. As approver (in a private window or another browser), open {web}/ and approve it.
3. See the money move at {ledger}/
4. Ask for more trouble, and settle it under To reconcile:
       refund order 7 10 and lose the answer
       refund order 8 10 and lose the request

Logs: {web_log}, {worker_log}, {ledger_log}
Ctrl-C ends all. The next start goes on where this one was.
"""


class Command(BaseCommand):
    help = "Run the whole demo on this machine: ledger, worker and web. One Ctrl-C ends all."
    # It only starts other processes, and makes the key and the database that these need.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="where the web listens (default: %(default)s)")
        parser.add_argument("--port", type=_port, default=8000, help="port of the web (default: %(default)s)")
        parser.add_argument("--ledger-port", type=_port, default=8001, help="port of the ledger (default: %(default)s)")
        parser.add_argument("--var", type=Path, default=ROOT / "var", help="folder for all that is kept (default: var)")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = Folder(options["var"])
        try:
            with StopSignals().caught() as stop, folder.held():
                self._run(folder, stop, options["host"], options["port"], options["ledger_port"])
        except (FolderError, ProcessError) as problem:
            self.stderr.write(str(problem))
            sys.exit(1)

    def _run(self, folder: Folder, stop: StopSignals, host: str, port: int, ledger_port: int) -> None:
        """1. End what is left of a killed start. 2. Check the ports. 3. Make or load the secrets. 4. Prepare the
        database. 5. Start and wait until all answer. 6. Watch until a signal comes or a process ends. 7. End all."""
        self._end_leftovers(folder)
        if os.environ.get("DATABASE_URL"):
            self._say(f"The demo keeps a database of its own in {_shown(folder.path)}; DATABASE_URL is not used.")
        _check_ports(host, port, ledger_port)
        secrets = folder.secrets()
        environment = _environment(folder, secrets, ledger_port)
        folder.write_environment(environment)
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        children = Children(folder, {**inherited, **environment, **_process_environment(folder, host)}, stop, cwd=ROOT)
        try:
            self._prepare(children, secrets)
            self._start(children, folder, host, port, ledger_port)
            self._welcome(folder, secrets, _url(host, port), _url("127.0.0.1", ledger_port))
            children.watch()
        except Stopped:
            self._say("\nEnding all. Work that runs is finished first.")
        finally:
            children.end_all()

    def _end_leftovers(self, folder: Folder) -> None:
        count = end_leftovers(folder, grace=DRAIN_SECONDS + 5)
        if count:
            self._say(f"Ended {count} processes that an earlier start had left behind.")

    def _prepare(self, children: Children, secrets: Secrets) -> None:
        self._say("Preparing the database …")
        children.run("migrate", _manage("migrate", "--no-input"))
        passwords = {
            "CAYU_DEMO_REQUESTER_PASSWORD": secrets.requester_password,
            "CAYU_DEMO_APPROVER_PASSWORD": secrets.approver_password,
        }
        children.run("demodata", _manage("demodata"), extra=passwords)

    def _start(self, children: Children, folder: Folder, host: str, port: int, ledger_port: int) -> None:
        """The ledger answers before a worker starts and is ended last: a refund that was approved meanwhile, or is just
        being made, must find it."""
        self._say("Starting ledger, worker and web …")
        ledger = children.start("ledger", _ledger(folder, ledger_port))
        ledger_health = f"{_url('127.0.0.1', ledger_port)}/health"
        children.wait_until(lambda: _answers(ledger_health), ledger, READY_SECONDS)
        children.start("worker", _manage("worker"), grace=DRAIN_SECONDS + 5)
        web = children.start("web", _web(host, port))
        web_health = f"{_url(host, port)}/health/live"
        children.wait_until(lambda: _answers(web_health), web, READY_SECONDS)

    def _welcome(self, folder: Folder, secrets: Secrets, web_url: str, ledger_url: str) -> None:
        text = WELCOME.format(
            web=web_url,
            ledger=ledger_url,
            requester=secrets.requester_password,
            approver=secrets.approver_password,
            web_log=_shown(folder.path / "web.log"),
            worker_log=_shown(folder.path / "worker.log"),
            ledger_log=_shown(folder.path / "ledger.log"),
        )
        self._say(text.rstrip())

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError("a port is a number from 1 to 65535")
    return int(text)


def _check_ports(host: str, port: int, ledger_port: int) -> None:
    if port == ledger_port:
        raise ProcessError(f"Web and ledger cannot share port {port}. Choose another with --port or --ledger-port.")
    for where, number, option in ((host, port, "--port"), ("127.0.0.1", ledger_port, "--ledger-port")):
        problem = port_problem(where, number)
        if problem:
            raise ProcessError(f"Port {number} on {where} cannot be used ({problem}). Choose another with {option}.")


def _environment(folder: Folder, secrets: Secrets, ledger_port: int) -> dict[str, str]:
    """What every command on this demo needs, also one that a person starts by hand."""
    return {
        "SECRET_KEY": secrets.secret_key,
        "DATABASE_URL": f"sqlite:///{quote(str(folder.database_file))}",
        "DEBUG": "0",
        "CAYU_ALLOW_SQLITE": "1",
        "CAYU_DEMO": "1",
        "CAYU_DRAIN_SECONDS": str(DRAIN_SECONDS),
        "CAYU_INSECURE_COOKIES": "1",
        "CAYU_LEDGER_URL": _url("127.0.0.1", ledger_port),
    }


def _process_environment(folder: Folder, host: str) -> dict[str, str]:
    hosts = [name for name in os.environ.get("ALLOWED_HOSTS", "").split(",") if name]
    return {
        "ALLOWED_HOSTS": ",".join(dict.fromkeys([*hosts, host, "127.0.0.1", "localhost"])),
        "CAYU_ENV_FILE": str(folder.environment_file),
        "PYTHONUNBUFFERED": "1",
    }


def _manage(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), *arguments]


def _ledger(folder: Folder, port: int) -> list[str]:
    database = folder.path / "ledger.sqlite3"
    return [sys.executable, "-m", "cayu_project.demo.ledger", "--db", str(database), "--port", str(port)]


def _web(host: str, port: int) -> list[str]:
    address = ["--host", host, "--port", str(port)]
    options = ["--lifespan", "off", "--no-access-log", "--timeout-graceful-shutdown", "3"]
    return [sys.executable, "-m", "uvicorn", "cayu_project.asgi:application", *address, *options]


def _url(host: str, port: int) -> str:
    """How this machine reaches what listens there."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{reachable}:{port}"


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _shown(path: Path) -> str:
    """As short as it can be typed from here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
