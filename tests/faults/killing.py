"""One round of kills, and the independent count at the end. The command that runs many: tests/faults/rounds.py."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from cayu_runtime.models import EffectRecord, Session, ToolCall
from cayu_runtime.services.tenant import create_tenant
from tests.faults.deployment import Cluster, Deployment, Supervisor, until
from tests.faults.load import DONE, Load, Person, Web

LEASE = 2
WORKERS = 3
GOES_ON_SECONDS = 10.0
TRUE_STATE_SECONDS = LEASE + 3.0
# How long a busy machine is waited for.
PATIENCE = 60.0
VICTIMS = ("busy worker", "idle worker", "master", "supervisor", "web")


@dataclass(slots=True)
class Tally:
    """What was measured, what was wrong, and what was right but late: that depends on what else the machine does."""

    kills: Counter[str] = field(default_factory=Counter)
    goes_on: dict[str, list[float]] = field(default_factory=lambda: {victim: [] for victim in VICTIMS})
    true_state: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    killed: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def expect(self, condition: bool, otherwise: str) -> None:
        if not condition:
            self.wrong.append(otherwise)

    def verdict(self) -> str:
        worst = {victim: f"{max(seconds):.1f} s" for victim, seconds in self.goes_on.items() if seconds}
        state = f"{max(self.true_state):.1f} s" if self.true_state else "none"
        told = ", ".join(f"{name}: {count}" for name, count in sorted(self.counts.items()))
        return (
            f"kills: {dict(self.kills)}; work went on at worst after {worst}; a busy worker's session was in its true "
            f"state at worst after {state} (lease {LEASE} s); {told}; "
            f"verdict: {self._judgement()}"
        )

    def _judgement(self) -> str:
        if self.wrong:
            return f"BAD, {len(self.wrong)} faults"
        load = f"load average {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores"
        return f"right, but late {len(self.late)} times ({load})" if self.late else "good"


class Rounds:
    """Kills by the plan of a seed, over a deployment whose supervisor and web it starts again."""

    def __init__(self, deployment: Deployment, web: Web, load: Load, seed: int) -> None:
        self.deployment = deployment
        self.web = web
        self.load = load
        self.random = random.Random(seed)
        self.tally = Tally()
        self.supervisor: Supervisor = self._supervise()

    def _supervise(self) -> Supervisor:
        return self.deployment.supervise(workers=WORKERS, CAYU_LEASE_SECONDS=str(LEASE))

    def round(self) -> None:
        order = list(VICTIMS)
        self.random.shuffle(order)
        for victim in order:
            self.supervisor.until_ready(WORKERS, PATIENCE)
            {
                "busy worker": self._kill_busy,
                "idle worker": self._kill_idle,
                "master": self._kill_master,
                "supervisor": self._kill_supervisor,
                "web": self._kill_web,
            }[victim]()
            self.tally.kills[victim] += 1
            self._write_down(victim)
            self._see_work_go_on(victim)

    def _write_down(self, victim: str) -> None:
        """For whoever looks for the cause of a fault beside the logs and the journal."""
        with (self.deployment.folder / "kills").open("a") as file:
            file.write(
                f"{datetime.now(UTC):%H:%M:%S.%f} {victim}; workers killed so far: {sorted(self.tally.killed)}\n"
            )

    def _see_work_go_on(self, victim: str) -> None:
        """From the kill to the end of a session that was started after it, over HTTP if the web was killed."""

        began = time.monotonic()
        if victim == "web":
            self.web.start()
            with closing(Person(self.web, "requester")) as person:
                session = until("the web starts a session", lambda: self._started_by(person), PATIENCE)
        else:
            session = self.deployment.start([("look", "go")])
        self.deployment.until_state(session, "completed", seconds=PATIENCE)
        seconds = time.monotonic() - began
        self.tally.goes_on[victim].append(seconds)
        if seconds > GOES_ON_SECONDS:
            self.tally.late.append(f"after the {victim} was killed nothing went on for {seconds:.1f} s")

    def _started_by(self, person: Person) -> Session | None:
        """By a new sign-in, as people have to who find the web anew; None while nobody answers."""
        with suppress(httpx.HTTPError):
            person.sign_in()
            session = f"probe-{len(self.tally.goes_on['web'])}"
            if person.post("/start/", {"agent": "open", "text": '[[["look", "go"]]]', "session_id": session}) in DONE:
                return Session.objects.get(session_id=session)
        return None

    def _kill_busy(self) -> None:

        tool = self.random.choice(("look", "label", "pay"))
        running = until(f"a worker runs {tool}", lambda: [line for line in self._running() if line["tool"] == tool])[-1]
        session = Session.objects.get(session_id=running["session"])
        self._kill_worker(running["pid"])
        killed = time.monotonic()

        def is_true() -> bool:
            now = Session.objects.get(pk=session.pk)
            return now.fence > session.fence or now.state not in ("running", "interrupting")

        until("its session is in its true state", is_true, PATIENCE)
        seconds = time.monotonic() - killed
        self.tally.true_state.append(seconds)
        if seconds > TRUE_STATE_SECONDS:
            self.tally.late.append(f"a {tool}'s session was stuck for {seconds:.1f} s")

    def _kill_worker(self, pid: int) -> None:
        self.tally.killed.add(pid)
        os.kill(pid, signal.SIGKILL)

    def _running(self) -> list[dict[str, Any]]:
        """Tools that have begun and not ended, in workers that live."""
        workers = {cluster.worker for cluster in self.supervisor.clusters()}
        ended = Counter((line["operation"], line["pid"]) for line in self.deployment.journal(what="ended"))
        begun = [line for line in self.deployment.journal() if line["pid"] in workers]
        return [line for line in begun if not ended[line["operation"], line["pid"]]]

    def _kill_idle(self) -> None:
        with self.load.held():
            self._kill_worker(self._idle().worker)

    def _idle(self) -> Cluster:

        def idle() -> list[Cluster]:
            busy = {line["pid"] for line in self._running()}
            return [cluster for cluster in self.supervisor.clusters() if cluster.worker not in busy]

        return self.random.choice(until("a worker is idle", idle))

    def _kill_master(self) -> None:
        os.kill(self.random.choice(self.supervisor.clusters()).guard, signal.SIGKILL)

    def _kill_supervisor(self) -> None:
        self.supervisor.kill()
        self.supervisor = self._supervise()

    def _kill_web(self) -> None:
        self.web.kill()

    def settle(self) -> None:
        """The load ends, what was started ends, and everything is counted."""

        self.load.end()
        open_states = ("pending", "running", "interrupting")

        def ended() -> bool:
            for session in Session.objects.filter(interruption="approval_required"):
                self.deployment.approve(session)
            waits = Session.objects.filter(state__in=open_states) | Session.objects.filter(
                interruption="approval_required"
            )
            return not waits.exists()

        until("every session ends", ended, 60)
        self.supervisor.until_ready(WORKERS, PATIENCE)
        self._count()

    def _count(self) -> None:

        tally = self.tally
        begun = Counter(line["operation"] for line in self.deployment.journal())
        ended = Counter(line["operation"] for line in self.deployment.journal(what="ended"))
        keys = Counter({(line["operation"], line["key"]): 1 for line in self.deployment.journal()})
        for session in Session.objects.order_by("created_at"):
            tally.counts[f"sessions {session.interruption or session.state}"] += 1
            right = session.state == "completed" or session.interruption == "effect_outcome_unknown"
            tally.expect(right, f"{session.session_id} ended as {session.state} {session.interruption}")
        for call in ToolCall.objects.select_related("effect", "session"):
            tally.counts["calls"] += 1
            tally.counts["runs"] += begun[call.operation_id]
            wrong = self._wrong_with(call, begun[call.operation_id], ended[call.operation_id])
            tally.expect(not wrong, f"{call.tool} of {call.session.session_id}: {call.state}, {wrong}")
        known = set(ToolCall.objects.values_list("operation_id", flat=True))
        tally.expect(set(begun) <= known, "the journal has runs that no call asked for")
        tally.expect(len(keys) == len(begun), "one operation ran under two keys")
        unknown = EffectRecord.objects.filter(state="outcome_unknown").count()
        tally.counts["unknown effects"] = unknown
        tally.expect(unknown <= len(tally.killed), f"{unknown} effects are unknown")

    def _wrong_with(self, call: ToolCall, runs: int, ends: int) -> str:
        """What the journal says against the state of a call; empty if nothing."""
        if runs > (1 if call.effect_class == "external" else 2):
            return f"and it ran {runs} times"
        if call.state == "completed":
            return "" if ends else "and it never ended"
        if call.state == "outcome_unknown":
            worker = int(call.effect.dispatched_by.rpartition(":")[2])
            why = call.effect.failure_evidence
            return "" if worker in self.tally.killed else f"and its worker {worker} was not killed: {why}"
        if call.state == "prepared" and call.session.interruption == "effect_outcome_unknown":
            return f"and it ran {runs} times" if runs else ""
        return "" if call.reason == "worker_lost" and runs == 2 else f"because {call.reason!r}, and it ran {runs} times"


@contextmanager
def killing(folder: Path, environment: dict[str, str], seed: int) -> Iterator[Rounds]:
    """Deployment, web and load, ready for the first round, and gone afterwards."""
    with ExitStack() as ending:
        deployment = Deployment(folder, environment, create_tenant("faults", "Faults Ltd"))
        ending.callback(deployment.clean_up)
        web = Web({**deployment.environment, "CAYU_PROCESS": "web"}, folder / "web.log")
        ending.callback(web.kill)
        load = Load(deployment, web, seed)
        ending.callback(load.stop)
        rounds = Rounds(deployment, web, load, seed)
        rounds.supervisor.until_ready(WORKERS, PATIENCE)
        load.start()
        yield rounds
