"""Where the processes of a RestartHarness come from: legs are forked from one that is prepared and knows no agent.

It has imported Django, the installed apps' models and the engine, which takes a second or two; it has no connection,
no thread, and has never looked for an agent. So a leg begins like a fresh process, and sooner.
"""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = "cayu-leg-ended "


@dataclass(frozen=True, slots=True)
class Ended:
    """How a leg ended: `code` as subprocess gives it, negative for a signal; `said` is its output."""

    pid: int
    code: int
    said: str


class Source:
    """One such process, for one environment and one database. It ends with this object."""

    def __init__(self, environment: Mapping[str, str], database: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cayu_runtime.testing_leg", MARK],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.end = weakref.finalize(self, _end, self.process)
        self._tell(database)

    def run(self, task: Mapping[str, Any], said: Path) -> Ended:
        """Fork one leg and wait until it has ended. RuntimeError if the source itself could not be prepared."""
        assert self.process.stdout is not None  # it is a pipe
        self._tell({**task, "said": str(said)})
        heard: list[str] = []
        for line in self.process.stdout:
            if line.startswith(MARK):
                pid, code = map(int, line.removeprefix(MARK).split())
                return Ended(pid, code, said.read_text(errors="replace"))
            heard.append(line)
        self.end()
        raise RuntimeError(f"The legs could not be prepared: {''.join(heard)[-4000:]}")

    def _tell(self, what: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None  # it is a pipe
        with suppress(BrokenPipeError):  # it has ended; what it said meanwhile is read next
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    process.wait()
