"""The folder of `manage.py up`: private, made once, held by one start at a time."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cayu_project.demo.folder import Folder, FolderError, write_private

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "var")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_is_private(folder: Folder) -> None:
    with folder.held():
        folder.secrets()
        folder.write_environment({"SECRET_KEY": "x"})
    assert mode(folder.path) == 0o700
    assert mode(folder.secrets_file) == 0o600
    assert mode(folder.environment_file) == 0o600


def test_a_folder_that_others_could_read_is_closed(folder: Folder) -> None:
    folder.path.mkdir(mode=0o755)
    with folder.held():
        assert mode(folder.path) == 0o700


def test_secrets_stay_the_same(folder: Folder) -> None:
    with folder.held():
        first = folder.secrets()
        assert folder.secrets() == first
    with folder.held():
        assert Folder(folder.path).secrets() == first
    assert len(first.secret_key) >= 50
    assert len({first.requester_password, first.approver_password}) == 2
    assert len(first.requester_password) == 19


@pytest.mark.parametrize("text", ["", "{", "[]", '{"secret_key": "x"}'])
def test_unreadable_secrets_get_a_sentence(folder: Folder, text: str) -> None:
    with folder.held():
        folder.secrets_file.write_text(text)
        with pytest.raises(FolderError, match="Delete it"):
            folder.secrets()


def test_somebody_elses_folder_is_left_alone(folder: Folder) -> None:
    folder.path.mkdir(mode=0o755)
    (folder.path / "thesis.txt").write_text("my only copy")
    with pytest.raises(FolderError, match="holds other things"), folder.held():
        pass
    assert mode(folder.path) == 0o755
    assert [file.name for file in folder.path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["cayu.sqlite3", "env"])
def test_what_came_before_the_first_start_is_kept(folder: Folder, name: str) -> None:
    """`manage.py migrate` alone makes the database there, and a person may have written `env`."""
    folder.path.mkdir(mode=0o755)
    (folder.path / name).write_text("kept")
    with folder.held():
        assert mode(folder.path) == 0o700
    assert (folder.path / name).read_text() == "kept"


def test_a_file_in_the_way_gets_a_sentence(folder: Folder) -> None:
    folder.path.write_text("")
    with pytest.raises(FolderError, match="cannot be used"), folder.held():
        pass


def test_two_starts_cannot_hold_it_at_once(folder: Folder) -> None:
    with folder.held(), pytest.raises(FolderError, match=r"Another .* runs"), Folder(folder.path).held():
        pass
    with folder.held():
        pass


def test_a_killed_start_holds_it_no_longer(folder: Folder) -> None:
    script = (
        "import sys; from pathlib import Path; from cayu_project.demo.folder import Folder\n"
        "with Folder(Path(sys.argv[1])).held(): print('held', flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", script, str(folder.path)]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FolderError), folder.held():
            pass
        holder.send_signal(signal.SIGKILL)
    with folder.held():
        pass


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    write_private(file, "old")

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_private(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_each_start_writes_the_environment_anew(folder: Folder) -> None:
    with folder.held():
        folder.write_environment({"SECRET_KEY": "one"})
        folder.write_environment({"SECRET_KEY": "two", "DEBUG": "0"})
    assert folder.environment_file.read_text().splitlines()[1:] == ["SECRET_KEY='two'", "DEBUG='0'"]


def test_an_environment_that_a_person_wrote_stays(folder: Folder) -> None:
    folder.path.mkdir()
    folder.environment_file.write_text("SECRET_KEY=mine\n")
    with folder.held():
        folder.write_environment({"SECRET_KEY": "ours"})
    assert folder.environment_file.read_text() == "SECRET_KEY=mine\n"


def test_the_secrets_file_holds_nothing_else(folder: Folder) -> None:
    with folder.held():
        folder.secrets()
    assert set(json.loads(folder.secrets_file.read_text())) == {
        "secret_key",
        "requester_password",
        "approver_password",
    }
