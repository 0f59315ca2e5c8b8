"""A deployment in processes of its own, for tests that kill them: supervisors on one database, and who watches them.

Nothing here waits by sleeping: `until` looks again and again for what must become true, and fails at its deadline.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

from cayu_runtime import Actor, registry
from cayu_runtime.models import Approval, EffectRecord, Event, Session, Tenant, ToolCall
from cayu_runtime.services.approval import decide_approval
from cayu_runtime.services.session import start_session
from tests.faults_app import agents

ROOT = Path(__file__).resolve().parents[2]
LOOK_SECONDS = 0.02
PATIENCE = 25.0

Found = TypeVar("Found")


def until(what: str, look: Callable[[], Found | None], seconds: float = PATIENCE) -> Found:
    """The first true answer of `look`. AssertionError, naming `what`, when there is none in time."""
    give_up = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < give_up, f"not within {seconds:g} s: {what}"
        time.sleep(LOOK_SECONDS)
    return found


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until_gone(pids: Iterable[int], seconds: float) -> None:
    until("the processes are gone", lambda: not any(is_alive(pid) for pid in pids), seconds)


class Supervisor:
    """One `manage.py worker`, with its log as it is written."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "worker"], cwd=ROOT, env=environment, stderr=output, stdout=output
            )
        self.pid = self.process.pid

    def said(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """Log lines of one event, in order."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [
            line
            for line in lines
            if line["event"] == event and all(line.get(name) == value for name, value in fields.items())
        ]

    def until_said(self, event: str, seconds: float = PATIENCE, **fields: Any) -> dict[str, Any]:
        return until(f"{event} {fields}", lambda: self.said(event, **fields), seconds)[0]

    def clusters(self) -> list[Cluster]:
        """Those whose worker is ready and alive."""
        started = {(line["slot"], line["pid"]): None for line in self.said("cluster.started")}
        lost = {line["pid"] for line in self.said("cluster.lost")}
        ready = {line["pid"]: line["worker"] for line in self.said("cluster.ready")}
        found = [Cluster(pid, ready[pid]) for _, pid in started if pid in ready and pid not in lost]
        return [cluster for cluster in found if cluster.is_whole()]

    def until_ready(self, count: int, seconds: float = PATIENCE) -> list[Cluster]:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        return until(f"{count} clusters ready\n{self._tail()}", lambda: self._all_of(count), seconds)

    def _all_of(self, count: int) -> list[Cluster]:
        found = self.clusters()
        return found if len(found) == count else []

    def _tail(self) -> str:
        return self.log.read_text()[-1500:]

    def everything(self) -> list[psutil.Process]:
        """It and all that it started, as it is now."""
        root = psutil.Process(self.pid)
        return [root, *root.children(recursive=True)]

    def end(self, signum: signal.Signals = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        self.process.send_signal(signum)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """It alone, as the kernel would."""
        self.process.kill()
        self.process.wait()


class Cluster:
    """The processes of one cluster: `guard` leads the group, `worker` runs tasks."""

    def __init__(self, guard: int, worker: int) -> None:
        self.guard = guard
        self.worker = worker

    def parts(self) -> dict[str, int]:
        """By name. The guard forks worker, monitor and pusher in this order."""
        children = sorted(psutil.Process(self.guard).children(), key=lambda child: (child.create_time(), child.pid))
        names = ("worker", "monitor", "pusher")
        return {"guard": self.guard, **dict(zip(names, (child.pid for child in children), strict=True))}

    def is_whole(self) -> bool:
        try:
            return len(self.parts()) == 4
        except (psutil.NoSuchProcess, ValueError):
            return False


class Deployment:
    """Supervisors, an office of two people, and the journal of what tools really did."""

    def __init__(self, folder: Path, environment: dict[str, str], tenant: Tenant) -> None:
        self.folder = folder
        self.environment = {
            **environment,
            "CAYU_APPS": "tests.faults_app",
            "CAYU_FAULTS_FOLDER": str(folder),
            "CAYU_LEASE_SECONDS": "2",
            "CAYU_WORKERS": "2",
            "CAYU_DRAIN_SECONDS": "20",
            "CAYU_INSECURE_COOKIES": "1",
        }
        self.tenant = tenant
        self.alice = Actor("user:alice", "alice", tenant.id, "web")
        self.bob = Actor("user:bob", "bob", tenant.id, "web")
        self.supervisors: list[Supervisor] = []
        registry.register_for_test(agents.GATED, agents.OPEN)

    def supervise(self, workers: int = 2, **environment: str) -> Supervisor:
        log = self.folder / f"worker-{len(self.supervisors)}.log"
        added = {"CAYU_WORKERS": str(workers), **environment}
        supervisor = Supervisor({**self.environment, **added}, log)
        self.supervisors.append(supervisor)
        return supervisor

    def start(self, *rounds: list[tuple[str, str]], agent: str = "open", tenant: Tenant | None = None) -> Session:
        for _, what in (call for called in rounds for call in called):
            released = self.folder / what.removeprefix("hold ")
            assert not (what.startswith("hold ") and released.exists()), (
                f"{what!r} would hold nothing: use another name"
            )
        where = tenant or self.tenant
        alice = Actor("user:alice", "alice", where.id, "web")
        return start_session(where, alice, agent=agent, text=json.dumps([*rounds, uuid.uuid4().hex]))

    def approve(self, session: Session) -> None:
        """Everything that the session waits for, as soon as it does."""
        for approval in until("an approval is asked for", lambda: self.asked(session)):
            self.decide(approval)

    def decide(self, approval: Approval, verdict: str = "approve") -> None:
        digest = bytes(approval.intent_digest).hex()
        decide_approval(self.tenant, self.bob, approval.id, verdict=verdict, version=approval.version, digest=digest)

    def approved(self, *rounds: list[tuple[str, str]]) -> Session:
        session = self.start(*rounds, agent="gated")
        self.approve(session)
        return session

    def asked(self, session: Session) -> list[Approval]:
        return list(Approval.objects.filter(session=session, state="pending"))

    def journal(self, session: Session | None = None, what: str = "begun") -> list[dict[str, Any]]:
        """What tools wrote down. An observer of its own: it asks no database."""
        file = self.folder / "journal"
        written = file.read_text().rpartition("\n")[0] if file.exists() else ""  # the last line may be half there
        lines = [json.loads(line) for line in written.splitlines()]
        ours = [line for line in lines if session is None or line["session"] == session.session_id]
        return [line for line in ours if line["what"] == what]

    def until_begun(self, session: Session, times: int = 1) -> int:
        """The process id of the worker that runs a tool of this session, as soon as one has begun so many times."""
        begun = until(f"{times} begun", lambda: b if len(b := self.journal(session)) >= times else [])
        return int(begun[-1]["pid"])

    def until_state(self, session: Session, *states: str, seconds: float = PATIENCE) -> Session:
        def arrived() -> bool:
            session.refresh_from_db()
            return session.state in states or session.interruption in states

        until(f"session {states}, it is {session.state} {session.interruption}", arrived, seconds)
        return session

    def release(self, name: str) -> None:
        (self.folder / name).touch()

    def die(self, where: str, session: Session) -> None:
        """The worker that comes there with this session kills itself: `before-T3`, `after-T3`, `before-T4`, …"""
        (self.folder / f"die-{where}-{session.pk}").touch()

    def events(self, session: Session) -> list[str]:
        return list(Event.objects.filter(session=session).order_by("seq").values_list("type", flat=True))

    def calls(self, session: Session) -> list[ToolCall]:
        return list(ToolCall.objects.filter(session=session).order_by("round__position", "position"))

    def effect(self, session: Session) -> EffectRecord:
        return EffectRecord.objects.get(session=session)

    def clean_up(self) -> None:
        """End the supervisors as they come, and whatever a test has left of their clusters."""
        groups = {line["pid"] for one in self.supervisors for line in one.said("cluster.started")}
        for supervisor in self.supervisors:
            if supervisor.process.poll() is None:
                supervisor.process.send_signal(signal.SIGTERM)
                supervisor.process.send_signal(signal.SIGINT)
        for supervisor in self.supervisors:
            with suppress(subprocess.TimeoutExpired):
                supervisor.process.wait(10)
            supervisor.process.kill()
            supervisor.process.wait()
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        until("no process of a cluster is left", lambda: not list(self.left(groups)))

    def left(self, groups: set[int]) -> Iterator[int]:
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, 0)
                yield group
