"""The one folder that lets `manage.py up` go on where it was: secrets, databases, logs, and who runs in it now."""

import fcntl
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

# Letters and digits that nobody mistakes for one another.
PASSWORD_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # noqa: S105 (an alphabet, no password)

ENVIRONMENT_HEAD = "# Written by each start of `manage.py up`; take this line away to keep changes of yours."


class FolderError(Exception):
    """The message is a sentence for the person at the shell, and says what to do."""


@dataclass(frozen=True)
class Secrets:
    secret_key: str
    requester_password: str
    approver_password: str

    @classmethod
    def new(cls) -> "Secrets":
        return cls(secrets.token_urlsafe(50), _new_password(), _new_password())


def _new_password() -> str:
    return "-".join("".join(secrets.choice(PASSWORD_ALPHABET) for _ in range(4)) for _ in range(4))


class Folder:
    """Private to its owner (0700). `held()` it before anything is read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.secrets_file = self.path / "secrets.json"
        self.environment_file = self.path / "env"
        self.database_file = self.path / "cayu.sqlite3"
        self.pids_file = self.path / "pids.json"
        self.lock_file = self.path / "up.lock"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder if it is missing, and hold it: the system lets go of it when this process ends, however."""
        self._prepare()
        with self.lock_file.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderError(
                    f"Another `manage.py up` runs in {self.path}. End it first, or choose another folder with --var."
                ) from None
            yield

    def _prepare(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(self.path.iterdir()) and not self._is_ours():
                raise FolderError(f"{self.path} holds other things. Choose a new or empty folder with --var.")
            self.path.chmod(0o700)
        except OSError as problem:
            raise FolderError(f"{self.path} cannot be used ({problem.strerror}). Choose another with --var.") from None

    def _is_ours(self) -> bool:
        # A start makes the lock first; another command may have made the database before, and a person `env`.
        known = (self.lock_file, self.secrets_file, self.environment_file, self.database_file)
        return any(file.is_file() for file in known)

    def secrets(self) -> Secrets:
        """What was made at the first start."""
        try:
            return Secrets(**json.loads(self.secrets_file.read_text()))
        except FileNotFoundError:
            made = Secrets.new()
        except (ValueError, TypeError):
            raise FolderError(f"{self.secrets_file} cannot be read. Delete it, and new secrets are made.") from None
        write_private(self.secrets_file, json.dumps(asdict(made), indent=1))
        return made

    def write_environment(self, environment: dict[str, str]) -> None:
        """What other commands read here to find the same database and key. A file that a person wrote is left alone."""
        if self.environment_file.exists() and not self.environment_file.read_text().startswith(ENVIRONMENT_HEAD):
            return
        lines = [f"{name}='{value}'" for name, value in environment.items()]
        write_private(self.environment_file, "\n".join([ENVIRONMENT_HEAD, *lines, ""]))


def write_private(path: Path, text: str) -> None:
    """Replace the file as a whole, readable by its owner alone: after a crash it holds the old text or the new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
