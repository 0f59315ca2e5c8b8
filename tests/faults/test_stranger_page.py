"""CONTRIBUTING.md followed literally: its files are written down as they stand there, and its tests are run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.rules import ROOT
from tests.conftest import environment_of_children

BLOCK = re.compile(r"^`(shop/\w+\.py)`\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONFIGURATION = "[pytest]\nDJANGO_SETTINGS_MODULE = cayu_project.settings\nfilterwarnings = error\n"


@pytest.mark.timeout(180)
@pytest.mark.sqlite
def test_the_page_s_application_works_as_it_is_written(tmp_path: Path):
    files = dict(BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text()))
    assert len(files) == (ROOT / "CONTRIBUTING.md").read_text().count("```python")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").touch()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text(CONFIGURATION)
    environment = {
        **environment_of_children(),
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CAYU_APPS": "shop",
        "CAYU_PROVIDERS": "shop=shop.provider.model",
        "DATABASE_URL": f"sqlite:///{tmp_path}/shop.sqlite3",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:playwright", "-p", "no:schemathesis", "shop"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout
