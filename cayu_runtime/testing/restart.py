"""The same, but each leg in a fresh process: what a run needs after a restart must be in its rows.

A leg ends when its work is done, or by SIGKILL at a moment that the test names. The next one has another process id,
looks for agents anew and finds its own by name, so a build that no longer fits shows here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection

from .. import errors
from ..contracts import Actor
from ..core.lease import lease_length
from ..models import Tenant
from .run import Run, Waiting
from .scene import Colleagues, Scene, refuse_other
from .script import ScriptedModel, ScriptError, Step, as_data
from .source import Source

MOMENTS = {
    "before_step": "the model has answered, and nothing of it is recorded",
    "after_step": "the model's step is recorded, with its calls and approvals",
    "before_intent": "a call is about to begin, and nothing says so yet",
    "after_intent": "the intent is recorded, and the tool has not run",
    "before_settlement": "the tool has run, and what came of it is not recorded",
    "after_settlement": "what came of the tool is recorded",
}
DATABASE = ("NAME", "HOST", "PORT", "USER", "PASSWORD")
PASSED_ON = ("CAYU_LEASE_SECONDS", "CAYU_MODEL", "CAYU_MODEL_TIMEOUT", "CAYU_PROVIDERS")


class RestartHarness(Scene):
    """An agent of an installed application; each thing that is done is done in a process of its own, forked from one
    that has imported the installed apps and never looked for an agent.

    `agent` is its name; `factory`, a dotted path, names a function that returns an Agent which no `agents.py` holds.
    `script` stands in for its model. `environment` and `path` (folders that come first on `sys.path`) choose the
    build that the next legs run; both may be changed in between. `authority` is the dotted path of a class; empty
    leaves it to the deployment's own.

    The legs see what is committed, so the test needs `django_db(transaction=True)`, and on SQLite a database file.
    A killed leg leaves its session under a lease; the next one counts it as over, by moving the clock.
    """

    def __init__(
        self,
        agent: str,
        script: ScriptedModel | Sequence[Step] | None = None,
        *,
        factory: str = "",
        authority: str = f"{Colleagues.__module__}.{Colleagues.__qualname__}",
        environment: Mapping[str, str] | None = None,
        path: Sequence[Path | str] = (),
        tenant: Tenant | None = None,
        network: bool = False,
    ) -> None:
        _refuse_hidden_rows()
        if script is not None and not isinstance(script, ScriptedModel):
            script = ScriptedModel(script)
        self.script = None if script is None else as_data(script.steps)
        self.agent, self.factory, self.authority, self.network = agent, factory, authority, network
        self.environment, self.path = dict(environment or {}), list(path)
        self.pids: list[int] = []
        self._kill: tuple[str, int] | None = None
        self._kept: tuple[dict[str, str], Source] | None = None
        super().__init__(tenant)

    def kill_at(self, moment: str, times: int = 1) -> None:
        """Let the next leg kill itself when it comes to one of MOMENTS for the `times`-th time.

        AssertionError by that leg if it never comes there.
        """
        if moment not in MOMENTS:
            raise ValueError(f"There is no moment {moment!r}. The moments are: {', '.join(MOMENTS)}.")
        self._kill = (moment, times)

    def start(self, text: str, *, by: str | Actor = "alice") -> Run:
        return self.start_each([text], by=by)[0]

    def start_each(self, texts: Iterable[str], *, by: str | Actor = "alice") -> list[Run]:
        """Start a session for each text, in one leg."""
        said = self._leg([{"do": "start", "text": text, "by": _as_data(self.actor(by))} for text in texts])
        return [Run(self, UUID(pk)) for pk in said]

    def drive(self, run: Run) -> None:
        self.go_each([run])

    def go_each(self, runs: Iterable[Run]) -> None:
        """Run each session until it waits or ends, one after another, in one leg."""
        self._leg([{"do": "go", "run": str(run.pk)} for run in runs])

    def decide(self, run: Run, waiting: Waiting, verdict: str, by: str | Actor, reason: str = "") -> None:
        self.decide_each([waiting], verdict, by=by, reason=reason)

    def decide_each(
        self, waiting: Iterable[Waiting], verdict: str, *, by: str | Actor = "bob", reason: str = ""
    ) -> None:
        """Decide several approvals alike, in one leg. Raises the first refusal; those before it are recorded."""
        asked = []
        for one in waiting:
            refuse_other(one)
            seen = {"approval": str(one.id), "version": one.version, "digest": one.digest}
            asked.append({"do": "decide", "verdict": verdict, "reason": reason, "by": _as_data(self.actor(by)), **seen})
        self._leg(asked)

    def answer(self, run: Run, waiting: Waiting, text: str, by: str | Actor) -> None:
        refuse_other(waiting, "question")
        seen = {"question": str(waiting.id), "digest": waiting.digest}
        self._leg([{"do": "answer", "text": text, "by": _as_data(self.actor(by)), **seen}])

    def _leg(self, operations: list[dict[str, Any]]) -> list[Any]:
        kill, self._kill = self._kill, None
        with tempfile.TemporaryDirectory(prefix="cayu-leg-") as folder:
            answer = Path(folder) / "answer"
            task = self._task(operations, kill, answer)
            leg = self._source().run(task, Path(folder) / "said")
            self.pids.append(leg.pid)
            if leg.code == -signal.SIGKILL and kill is not None:
                self.advance(lease_length() + timedelta(seconds=1))
                return []
            if leg.code:
                raise RuntimeError(f"A leg ended with {leg.code}. It said: {leg.said[-4000:]}")
            outcome = json.loads(answer.read_text())
        _raise_refusal(outcome)
        if kill is not None:
            raise AssertionError(f"The leg ended before it came to {kill[0]!r} ({MOMENTS[kill[0]]}) {kill[1]} time(s).")
        done: list[Any] = outcome["done"]
        return done

    def _task(self, operations: list[dict[str, Any]], kill: tuple[str, int] | None, answer: Path) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "factory": self.factory,
            "script": self.script,
            "authority": self.authority,
            "network": self.network,
            "tenant": str(self.tenant.pk),
            "shift": self.offset.total_seconds(),
            "kill": kill,
            "operations": operations,
            "answer": str(answer),
            "settings": {name: getattr(settings, name) for name in PASSED_ON if name not in self.environment},
        }

    def _source(self) -> Source:
        """What legs are forked from; another one when the build or its environment has changed."""
        environment = self._environment()
        if self._kept is None or self._kept[0] != environment:
            self.close()
            database = {name: str(connection.settings_dict[name]) for name in DATABASE}
            self._kept = environment, Source(environment, database)
        return self._kept[1]

    def close(self) -> None:
        """End the process that legs come from. It ends with the harness in any case."""
        if self._kept is not None:
            self._kept[1].end()
        self._kept = None

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([*map(str, self.path), *filter(None, sys.path)])
        # No bytecode is written: a build that was changed in place within a second would run as it was before.
        return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **self.environment}


def _refuse_hidden_rows() -> None:
    if connection.in_atomic_block:
        raise RuntimeError(
            "Another process can't see rows of an open transaction. Mark the test "
            "@pytest.mark.django_db(transaction=True)."
        )
    if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
        raise RuntimeError(
            "Another process can't see a database in memory. Set DATABASES['default']['TEST']['NAME'] to a file."
        )


def _as_data(actor: Actor) -> dict[str, Any]:
    return {
        "subject": actor.subject,
        "name": actor.name,
        "source": actor.source,
        "roles": list(actor.roles),
        "is_superuser": actor.is_superuser,
    }


def _raise_refusal(outcome: dict[str, Any]) -> None:
    """What was raised in the leg, as the same type where it is one that a test can expect."""
    if "raised" not in outcome:
        return
    kind, message, code = outcome["raised"], outcome["message"], outcome["code"]
    if kind == "NotPermitted":
        raise errors.NotPermitted(message, code=code)
    refusal = getattr(errors, kind, None)
    if isinstance(refusal, type) and issubclass(refusal, errors.CayuError):
        raise refusal(message)
    if kind == ScriptError.__name__:
        raise ScriptError(message)
    raise AssertionError(f"{kind} in a leg: {message}")
