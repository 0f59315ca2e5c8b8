"""Children that can be killed and stopped. They are forked by a process that was itself forked before anything else
ran: it has one thread and no connection, so that its children begin clean.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from cayu_runtime.core import clock, engine, points
from tests.proof.agents import Scene, declare
from tests.proof.downstream import Downstream
from tests.proof.faults import DATABASE_ERRORS
from tests.proof.hands import backend_pid
from tests.proof.points import name_of


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a child: `exited` by itself, `killed`, `stopped` at a point, `failed` by an error."""

    pid: int
    how: str
    point: str = ""
    backend: int = 0


class Nursery:
    def __init__(self, downstream: Path) -> None:
        to_it, from_us = os.pipe()
        to_us, from_it = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(from_us)
            os.close(to_us)
            _serve(os.fdopen(to_it), os.fdopen(from_it, "w"), downstream)
        os.close(to_it)
        os.close(from_it)
        self._orders, self._answers = os.fdopen(from_us, "w"), os.fdopen(to_us)

    def run(self, session: UUID, owner: str, now: datetime, at: int, how: str) -> Ended:
        """A worker that runs this session and sends itself `how` at the point number `at` that it comes to."""
        return self._ask(do="run", session=str(session), owner=owner, now=now.isoformat(), at=at, how=how)

    def go_on(self, pid: int) -> Ended:
        return self._ask(do="go on", pid=pid)

    def kill(self, pid: int) -> Ended:
        return self._ask(do="kill", pid=pid)

    def _ask(self, **order: Any) -> Ended:
        print(json.dumps(order), file=self._orders, flush=True)
        return Ended(**json.loads(self._answers.readline()))

    def close(self) -> None:
        self._orders.close()
        os.waitpid(self.pid, 0)
        self._answers.close()


def _serve(orders: Any, answers: Any, downstream: Path) -> None:
    children: set[int] = set()
    said: dict[int, dict[str, Any]] = {}
    for line in orders:
        order = json.loads(line)
        if order["do"] == "run":
            ours, theirs = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(ours)
                _work(order, theirs, downstream)
            os.close(theirs)
            children.add(pid)
            # The child's end is closed when it is gone; one that stops has written its line before.
            _, status = os.waitpid(pid, os.WUNTRACED)
            os.set_blocking(ours, False)
            with suppress(BlockingIOError):
                text = os.read(ours, 4096)
                said[pid] = json.loads(text) if text else {}
            os.close(ours)
        else:
            pid = order["pid"]
            os.kill(pid, signal.SIGCONT if order["do"] == "go on" else signal.SIGKILL)
            _, status = os.waitpid(pid, os.WUNTRACED)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 3:
            how = "failed"
        else:
            how = "stopped" if os.WIFSTOPPED(status) else "killed" if os.WIFSIGNALED(status) else "exited"
        if how != "stopped":
            children.discard(pid)
        print(json.dumps({"pid": pid, "how": how, **said.get(pid, {})}), file=answers, flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def _work(order: dict[str, Any], report: int, downstream: Path) -> None:
    """In the child: one run of one session, and the end of this process."""
    left, place = order["at"], Downstream(downstream)

    def listener(side: str) -> None:
        nonlocal left
        name = name_of(sys._getframe(1), side)
        if name.startswith("core.lease.renew"):
            return
        left -= 1
        if left == 0:
            os.write(report, json.dumps({"point": name, "backend": backend_pid()}).encode())
            with place.quiet:
                os.kill(os.getpid(), getattr(signal, order["how"]))

    status = 0
    try:
        declare(Scene(place))
        points.listener = listener
        with clock.standing(datetime.fromisoformat(order["now"])):
            engine.run_session(UUID(order["session"]), order["owner"])
    except DATABASE_ERRORS:
        pass  # its connection may have been ended while it was stopped
    except Exception as error:
        status = 3
        os.write(2, f"a child failed: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)
