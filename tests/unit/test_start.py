"""A web server runs no system checks, so the entry points do: what is refused does not start."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core import checks as django_checks
from django.core.exceptions import ImproperlyConfigured

from cayu_project.checks import refuse_unsafe_start
from tests.architecture.rules import ROOT


@pytest.mark.parametrize("entry", ["asgi", "wsgi"])
def test_an_entry_point_refuses_with_the_fix(entry: str) -> None:
    environment = {**os.environ, "DATABASE_URL": "sqlite://:memory:", "SECRET_KEY": "", "CAYU_ALLOW_SQLITE": "0"}
    child = subprocess.run(
        [sys.executable, "-c", f"import cayu_project.{entry}"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert child.returncode == 1
    assert "The configuration is refused." in child.stderr
    assert "cayu.E001" in child.stderr
    assert "Set SECRET_KEY in the environment" in child.stderr
    assert "cayu.E002" in child.stderr


def test_a_command_on_a_database_without_tables_says_what_to_do(tmp_path: Path) -> None:
    given = {"DATABASE_URL": f"sqlite:///{tmp_path}/empty.sqlite3", "SECRET_KEY": "x" * 50, "CAYU_ALLOW_SQLITE": "1"}
    child = subprocess.run(
        [sys.executable, "manage.py", "effects", "list", "--tenant", "acme"],
        cwd=ROOT, env={**os.environ, "CAYU_ENV_FILE": "", **given}, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert child.returncode == 1
    assert "Traceback" not in child.stderr
    assert child.stderr.strip().endswith("Check DATABASE_URL, then run: manage.py migrate")


def test_the_settings_of_the_tests_are_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cayu_project.checks._run_all_checks", _without_databases)
    refuse_unsafe_start()


def _without_databases() -> Any:
    return django_checks.run_checks()


def test_every_error_is_named_at_once(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.SECRET_KEY_IS_MISSING = True
    settings.CAYU_WORKERS = 0
    monkeypatch.setattr("cayu_project.checks._run_all_checks", _without_databases)
    with pytest.raises(ImproperlyConfigured) as refusal:
        refuse_unsafe_start()
    assert "cayu.E001" in str(refusal.value)
    assert "cayu.E005" in str(refusal.value)
