"""`python -m cayu_runtime.testing_leg MARK`: what `testing/source.py` starts. It forks one leg for each line on stdin.

It stands beside the package because it must prepare Django before anything there is imported.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

import django
from django.conf import settings

# Where each moment of MOMENTS lies: the module that calls a step of the engine, and its name there.
PLACES = {
    "step": ("cayu_runtime.core.engine", "record_step"),
    "intent": ("cayu_runtime.core.execution", "record_intent"),
    "settlement": ("cayu_runtime.core.execution", "settle"),
}


LEG_SECONDS = 120


def main(mark: str) -> None:
    settings.DATABASES["default"].update(json.loads(sys.stdin.readline()))
    django.setup()
    for module in ("cayu_runtime.testing", "pydantic_ai.direct"):
        import_module(module)
    for line in sys.stdin:
        if threading.active_count() > 1:
            raise RuntimeError("An installed app started a thread while it was imported; it would not be in a leg.")
        pid = os.fork()
        if pid == 0:
            _leg(json.loads(line))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{mark}{pid} {os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _leg(task: dict[str, Any]) -> NoReturn:
    """One leg, in the process that was forked for it. SIGALRM ends one that hangs."""
    code = 1
    try:
        signal.alarm(LEG_SECONDS)
        said = os.open(task["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(said, stream)
        for name, value in task["settings"].items():
            setattr(settings, name, value)
        if task["kill"]:
            _die_at(*task["kill"])
        Path(task["answer"]).write_text(json.dumps(_answer(task)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


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
        if asked["do"] == "answer":
            self.harness.record_answer(UUID(asked["question"]), asked["text"], by, asked["digest"])
            return None
        self.harness.record(
            UUID(asked["approval"]), asked["verdict"], by, asked["version"], asked["digest"], asked["reason"]
        )
        return None


def _die_at(moment: str, times: int) -> None:
    """Kill this process before or after the `times`-th pass of one step of the engine."""
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
    main(sys.argv[1])
