"""Agents that do what a message says, with tools that write each execution down before anything else can happen.

The message is JSON: a list of rounds, each a list of [tool, what it does]. A tool does `go` (return at once),
`hold NAME` (return once a file NAME lies in the folder), `work SECONDS`, `die` (kill its own worker), `die once` (the
first time only). A text at the end of the list is written into all arguments, so that no two sessions do the same: an
uncertain action holds its equals. A round that is [["model", "die"]] kills the worker in the model step instead. Who
reads the journal counts what really happened downstream, whatever the database says.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from cayu_runtime import (
    Agent,
    Call,
    Finding,
    Inquiry,
    Observation,
    Reconciler,
    Reply,
    Tool,
    ToolContext,
    ToolEffect,
    ToolResult,
    ToolSpec,
    Turn,
)
from cayu_runtime.policies import Allow, RequireApproval

HOLD_SECONDS = 40.0


def folder() -> Path:
    return Path(os.environ["CAYU_FAULTS_FOLDER"])


def write_down(**entry: Any) -> None:
    """Append one line to the journal, on the disk when this returns."""
    file = os.open(folder() / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(entry).encode() + b"\n")
        os.fsync(file)
    finally:
        os.close(file)


class Deed(Tool):
    def __init__(self, name: str, effect: ToolEffect) -> None:
        schema = {
            "type": "object",
            "properties": {
                "do": {"type": "string"},
                "n": {"type": "integer", "default": 0},
                "run": {"type": "string", "default": ""},
            },
            "required": ["do"],
            "additionalProperties": False,
        }
        super().__init__(ToolSpec(name, "Does what it is told.", schema, effect, verb=name.capitalize(), target="do"))

    def run(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        entry = {"tool": self.spec.name, "session": ctx.session_id, "operation": ctx.operation_id, "pid": os.getpid()}
        write_down(what="begun", key=ctx.idempotency_key, replayed=ctx.replayed, **entry)
        what, _, how = args["do"].partition(" ")
        if what == "die" and not (how == "once" and ctx.replayed):
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "work":
            time.sleep(float(how))
        if what == "hold":
            give_up = time.monotonic() + HOLD_SECONDS
            while not (folder() / how).exists() and time.monotonic() < give_up:
                time.sleep(0.02)
        write_down(what="ended", **entry)
        return ToolResult("done")


class Journal(Reconciler):
    """What happened downstream is what the journal holds. Its "no" bars nothing: who is on the way may still come."""

    def lookup(self, inquiry: Inquiry) -> Observation:
        written = (folder() / "journal").read_text().rpartition("\n")[0].splitlines()
        ended = [line for line in map(json.loads, written) if line["what"] == "ended"]
        if any(line["operation"] == inquiry.operation_id for line in ended):
            return Observation(Finding.CONFIRMED_DONE, "It is in the journal.", ToolResult("done"))
        return Observation(Finding.ABSENT, "It is not in the journal.")


class Payment(Deed):
    reconciler = Journal()


def script(turn: Turn) -> Reply:
    rounds = json.loads(turn.message)
    run = rounds.pop() if isinstance(rounds[-1], str) else ""
    made = len(turn.outcomes)
    for planned in rounds:
        if made <= 0 and planned == [["model", "die"]]:
            os.kill(os.getpid(), signal.SIGKILL)
        if made <= 0:
            return Reply(
                calls=tuple(Call(tool, {"do": do, "n": n, "run": run}) for n, (tool, do) in enumerate(planned))
            )
        made -= len(planned)
    return Reply(" ".join(f"{outcome.tool}: {outcome.status}." for outcome in turn.outcomes))


TOOLS = (Deed("look", ToolEffect.NONE), Deed("label", ToolEffect.IDEMPOTENT), Payment("pay", ToolEffect.EXTERNAL))

GATED = Agent(name="gated", model=script, tools=TOOLS, policy=RequireApproval(("label", "pay")))
OPEN = Agent(name="open", model=script, tools=TOOLS, policy=Allow(("*",)))
DISTANT = Agent(name="distant", model="openai-chat:test", tools=TOOLS, policy=RequireApproval(("label", "pay")))
