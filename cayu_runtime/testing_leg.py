"""`python -m cayu_runtime.testing_leg`: one leg of a RestartHarness, which says on stdin what to do.

It stands beside the package because it must prepare Django before anything there is imported.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import django
from django.conf import settings

# Where each moment of MOMENTS lies: the module that calls a step of the engine, and its name there.
PLACES = {
    "step": ("cayu_runtime.core.engine", "record_step"),
    "intent": ("cayu_runtime.core.execution", "record_intent"),
    "settlement": ("cayu_runtime.core.execution", "settle"),
}


def main() -> None:
    task = json.load(sys.stdin)
    settings.DATABASES["default"].update(task["database"])
    for name, value in task["settings"].items():
        setattr(settings, name, value)
    django.setup()
    if task["kill"]:
        _die_at(*task["kill"])
    Path(task["answer"]).write_text(json.dumps(_answer(task)))


def _answer(task: dict[str, Any]) -> dict[str, Any]:
    from .errors import CayuError

    done: list[Any] = []
    try:
        leg = Leg(task)
        for operation in task["operations"]:
            done.append(leg.do(operation))
    except (CayuError, AssertionError, LookupError) as error:
        return {
            "done": done, "raised": type(error).__name__, "message": str(error), "code": getattr(error, "code", ""),
        }  # fmt: skip
    return {"done": done}


class Leg:
    """A plain harness in this process, for the tenant and at the time of the test."""

    def __init__(self, task: dict[str, Any]) -> None:
        from django.utils.module_loading import import_string

        from .models import Tenant
        from .testing.harness import Harness
        from .testing.script import from_data

        self.harness = Harness(
            import_string(task["factory"])() if task["factory"] else task["agent"],
            None if task["script"] is None else from_data(task["script"]),
            authority=import_string(task["authority"])() if task["authority"] else None,
            tenant=Tenant.objects.get(pk=task["tenant"]),
            network=task["network"],
        )
        self.harness.advance(timedelta(seconds=task["shift"]))

    def do(self, asked: dict[str, Any]) -> Any:
        from .contracts import Actor
        from .testing.run import Run

        if asked["do"] == "go":
            self.harness.drive(Run(self.harness, UUID(asked["run"])))
            return None
        who = asked["by"]
        by = Actor(
            who["subject"], who["name"], self.harness.tenant.pk, who["source"], tuple(who["roles"]), who["is_superuser"]
        )
        if asked["do"] == "start":
            return str(self.harness.start(asked["text"], by=by).pk)
        self.harness.record(
            UUID(asked["approval"]), asked["verdict"], by, asked["version"], asked["digest"], asked["reason"]
        )
        return None


def _die_at(moment: str, times: int) -> None:
    """Kill this process before or after the `times`-th pass of one step of the engine."""
    from importlib import import_module

    when, _, step = moment.partition("_")
    module_name, name = PLACES[step]
    module = import_module(module_name)
    real = getattr(module, name)
    passed = 0

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal passed
        passed += 1
        if passed < times:
            return real(*args, **kwargs)
        if when == "after":
            real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(module, name, deadly)


if __name__ == "__main__":
    main()
