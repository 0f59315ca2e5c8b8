"""Agents for processes that a test kills. Installed in a child process by CAYU_APPS=tests.faults_app.

With CAYU_FAULTS_FOLDER the process also dies where a test says: when a file `die-before-T3-SESSION` lies in that
folder, the worker that comes there with that session removes it and kills itself.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from django.apps import AppConfig

POINTS = {"T3": "record_intent", "T4": "settle"}


class FaultsConfig(AppConfig):
    name = "tests.faults_app"
    verbose_name = "Faults"

    def ready(self) -> None:
        folder = os.environ.get("CAYU_FAULTS_FOLDER")
        if folder:
            for point, function in POINTS.items():
                _make_deadly(Path(folder), point, function)


def _make_deadly(folder: Path, point: str, name: str) -> None:
    from cayu_runtime.core import execution
    from cayu_runtime.core.lease import Lease

    real = getattr(execution, name)

    def deadly(lease: Lease, *args: Any) -> Any:
        _die_if_told(folder / f"die-before-{point}-{lease.session}")
        answer = real(lease, *args)
        _die_if_told(folder / f"die-after-{point}-{lease.session}")
        return answer

    setattr(execution, name, deadly)


def _die_if_told(order: Path) -> None:
    try:
        order.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
