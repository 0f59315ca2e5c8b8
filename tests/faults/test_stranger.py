"""Approvals that outlive a build (A20, A16): the stranger's application is replaced by a newer one while they wait.

A build is a copy of the folder with lines changed; each leg is a process that imports it anew.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from cayu_review.services.membership import grant_role
from cayu_runtime.errors import Conflict
from cayu_runtime.models import Approval
from cayu_runtime.testing import RestartHarness, Run
from tests.architecture.rules import ROOT
from tests.conftest import environment_of_children
from tests.stranger_app.accounts import Accounts

pytestmark = [pytest.mark.usefixtures("transactional_db"), pytest.mark.timeout(180)]

Edits = dict[str, list[tuple[str, str]]]

UNRELATED: Edits = {
    "close_account.py": [
        ("Close a customer's account for good.", "Close one account. It can't be opened again."),
        ('f"Closed {args[\'account\']}."', 'f"Closed {args[\'account\']} (build 2)."'),
    ],
    "look_up.py": [("Say whether an account is open.", "Open or closed?")],
    "agents.py": [
        ("from .policy", "from .note import note\nfrom .policy"),
        ("tools=(look_up,", 'version="2",\n    tools=(note, look_up,'),
        ("Close accounts when asked.", "Close accounts, politely."),
    ],
}
NOTE = """
from cayu_runtime import ToolEffect, tool


@tool(effect=ToolEffect.NONE)
def note(text: str) -> str:
    return text
"""
BOUND: dict[str, Edits] = {
    "version": {"close_account.py": [('version="1"', 'version="2"')]},
    "schema": {"close_account.py": [('"maxLength": 40', '"maxLength": 50')]},
    "policy": {"agents.py": [('protected="vip-"', 'protected="v"')]},
    "tool": {"agents.py": [("tools=(look_up, CloseAccount())", "tools=(look_up,)")]},
}


def build(folder: Path, edits: Edits | None = None, **added: str) -> Path:
    """A folder to put on the path, with the application in it as `stranger`."""
    app = folder / "stranger"
    shutil.copytree(ROOT / "tests/stranger_app", app, ignore=shutil.ignore_patterns("__pycache__"))
    for name, changes in (edits or {}).items():
        text = (app / name).read_text()
        for old, new in changes:
            assert old in text, f"{name} has no {old!r}"
            text = text.replace(old, new)
        (app / name).write_text(text)
    for name, text in added.items():
        (app / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    return Accounts(tmp_path)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "CAYU_APPS": "stranger",
        "CAYU_PROVIDERS": "stranger=stranger.provider.model",
        "STRANGER_FOLDER": str(tmp_path),
    }


@pytest.fixture
def harness(tmp_path: Path, environment: dict[str, str]) -> RestartHarness:
    return RestartHarness("stranger-clerk", environment=environment, path=[build(tmp_path / "build-1")])


def waiting(harness: RestartHarness, count: int) -> list[Run]:
    runs = harness.start_each([f"close a-{n}" for n in range(count)])
    harness.go_each(runs)
    assert [run.state for run in runs] == ["approval_required"] * count
    return runs


def test_fifty_approvals_are_decided_and_run_once_by_a_newer_build(
    harness: RestartHarness, accounts: Accounts, tmp_path: Path
):
    """A20."""
    runs = waiting(harness, 50)
    asked = [run.waiting()[0] for run in runs]
    harness.path = [build(tmp_path / "build-2", UNRELATED, note=NOTE)]

    harness.decide_each(asked[:30], "approve")
    harness.decide_each(asked[30:], "deny", reason="Not this one.")
    harness.go_each(runs)
    harness.go_each(runs)
    assert Counter(run.state for run in runs) == {"completed": 50}
    assert {run.text() for run in runs[:30]} == {f"Closed a-{n} (build 2)." for n in range(30)}
    assert Counter(closing["account"] for closing in accounts.closings()) == {f"a-{n}": 1 for n in range(30)}
    states = Counter(Approval.objects.filter(tenant=harness.tenant).values_list("state", flat=True))
    assert states == {"consumed": 30, "denied": 20}


@pytest.mark.parametrize("changed", BOUND)
def test_what_an_approval_is_bound_to_has_changed_and_nothing_runs(
    harness: RestartHarness, accounts: Accounts, tmp_path: Path, settings: Settings, changed: str
):
    """A16. Whether the decision finds it or the dispatch: refused with a reason, and the page says why."""
    settings.CAYU_AUTHORITY = "cayu_review.permissions.MembershipAuthority"
    [run] = waiting(harness, 1)
    harness.path = [build(tmp_path / "build-2", BOUND[changed])]
    with suppress(Conflict):
        run.approve()
    run.go()
    assert accounts.closings() == []
    call = run.calls()[-1]
    assert (call.state, call.reason, run.state) == ("blocked", "stale", "completed")
    assert [effect.state for effect in run.effects()] == ["abandoned"]
    approval = Approval.objects.get(session=run.pk)
    assert (approval.state, "changed since it was authorised" in approval.reason) == ("void", True)
    assert "changed since it was authorised" in run.text()

    erin = User.objects.create_user(f"erin-{changed}")
    grant_role(erin, harness.tenant, "viewer")
    client = Client()
    client.force_login(erin)
    page = client.get(f"/approvals/{approval.id}/").content.decode()
    assert "changed since it was authorised" in page


def test_a_deployment_with_it_passes_the_checks(environment: dict[str, str], tmp_path: Path):
    path = f"{build(tmp_path / 'build-1')}:{ROOT}"
    checked = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**environment_of_children(), **environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert checked.returncode == 0, checked.stderr
    assert "stranger" not in checked.stderr  # no warning is about it
