"""The oracle: what the rows say, beside what the downstream knows and what people were told."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import rfc8785
from django.db import connection

from tests.proof import model
from tests.proof.downstream import Booking, Downstream, Request
from tests.proof.model import Row, Rows

TABLES = {
    "sessions": ("session", "created_at, id"),
    "rounds": ("toolround", "session_id, position"),
    "calls": ("toolcall", "session_id, round_id, position"),
    "effects": ("effectrecord", "id"),
    "approvals": ("approval", "id"),
    "decisions": ("decision", "id"),
    "questions": ("question", "id"),
    "attempts": ("attempt", "id"),
    "events": ("event", "session_id, seq"),
    "messages": ("message", "session_id, position"),
}
JSON = {"payload", "receipt", "arguments", "evidence", "body", "result", "failure_evidence"}
# What is called an id and is a text that somebody chose.
TEXTS = {("sessions", "session_id"), ("calls", "call_id"), ("calls", "operation_id"), ("effects", "operation_id")}
# Its downstream is a table of ours, and nobody can be asked about it: a person gives its session up.
INWARD = "record_proposal"
OPEN_ROW = ("running", "interrupting")


def read(tenant: UUID) -> Rows:
    """All rows of a tenant, by plain SQL, as of one moment on PostgreSQL."""
    found: dict[str, list[Row]] = {}
    postgres = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        if postgres and not connection.in_atomic_block:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        key = tenant if postgres else tenant.hex
        for name, (table, order) in TABLES.items():
            cursor.execute(f"SELECT * FROM cayu_runtime_{table} WHERE tenant_id = %s ORDER BY {order}", [key])
            columns = [column[0] for column in cursor.description]
            found[name] = [_plain(name, dict(zip(columns, row, strict=True))) for row in cursor.fetchall()]
        if postgres and not connection.in_atomic_block:
            cursor.execute("COMMIT")
    return Rows(**found)


def _plain(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    """As PostgreSQL's driver gives it, whatever the database."""
    for name, value in row.items():
        if isinstance(value, datetime) and value.tzinfo is None:
            row[name] = value.replace(tzinfo=UTC)
        if not isinstance(value, str):
            continue
        if name in JSON:
            row[name] = json.loads(value)
        elif (name == "id" or name.endswith("_id")) and (kind, name) not in TEXTS:
            row[name] = UUID(value)
    return row


def _is_on_its_way(row: Row, now: datetime) -> bool:
    return row["state"] in OPEN_ROW or (row["state"] == "pending" and row["runnable_at"] <= now)


class Oracle:
    def __init__(self, tenant: UUID, downstream: Downstream) -> None:
        self.tenant, self.downstream = tenant, downstream
        self.rows = Rows(*([] for _ in TABLES))
        self.decided: dict[tuple[str, str, str], bool] = {}
        self._chained: dict[Any, tuple[int, bytes]] = {}

    def asked(self, decision: tuple[str, str, str], *, done: bool) -> None:
        """Somebody decided; `done`: and was told that it is recorded."""
        self.decided[decision] = self.decided.get(decision, False) or done

    def look(self) -> list[str]:
        """Read everything anew; what is wrong with it."""
        before, self.rows = self.rows, read(self.tenant)
        return [
            *model.moved(before, self.rows),
            *model.lies(self.rows),
            *self._chains(),
            *self._against_downstream(),
            *self._against_people(),
        ]

    def session(self, name: str) -> Row | None:
        return next((row for row in self.rows.sessions if row["session_id"] == name), None)

    def at_rest(self, name: str, now: datetime) -> bool:
        """Nobody holds this session, and nobody has to take it: what its rows say is final until somebody acts."""
        row = self.session(name)
        return row is None or not _is_on_its_way(row, now)

    def stuck(self, since: datetime) -> list[str]:
        """Sessions that were due then, or are still held, now that all hands are at rest."""
        on_their_way = [row for row in self.rows.sessions if _is_on_its_way(row, since)]
        return [f"{row['session_id']} ({row['state']})" for row in on_their_way]

    def is_over(self) -> bool:
        open_sessions = [row for row in self.rows.sessions if row["state"] not in ("completed", "failed")]
        return not open_sessions and all(row["state"] in model.CLOSED_EFFECT for row in self._outward())

    def _outward(self) -> list[Row]:
        return [row for row in self.rows.effects if row["tool"] != INWARD]

    # --- the log -----------------------------------------------------------------------------------------------------

    def _chains(self) -> Iterator[str]:
        """Each new event's hash, computed anew from what it says."""
        for event in self.rows.events:
            seq, last = self._chained.get(event["session_id"], (0, bytes(32)))
            if event["seq"] <= seq:
                continue
            content = {
                "owner": str(event["session_id"]),
                "seq": event["seq"],
                "type": event["type"],
                "at": event["at"].isoformat(),
                "payload": event["payload"],
            }
            hashed = hashlib.sha256(last + rfc8785.dumps(content)).digest()
            if hashed != bytes(event["hash"]):
                yield f"event {event['seq']} {event['type']} breaks its chain"
            self._chained[event["session_id"]] = (event["seq"], bytes(event["hash"]))

    # --- the downstream ----------------------------------------------------------------------------------------------

    def _against_downstream(self) -> Iterator[str]:
        requests, bookings = self.downstream.requests(), self.downstream.bookings()
        calls = {call["operation_id"]: call for call in self.rows.calls if call["repeats_id"] is None}
        effects = {effect["operation_id"]: effect for effect in self.rows.effects}
        dispatches: dict[Any, set[str]] = {}
        for attempt in self.rows.attempts:
            if attempt["kind"] == "dispatch":
                dispatches.setdefault(attempt["effect_id"], set()).add(str(attempt["dispatch_id"]))
        retries = Counter(
            event["payload"]["effect"] for event in self.rows.events if event["type"] == "tool.effect.safe_to_retry"
        )
        arrived: dict[str, list[Request]] = {}
        for request in requests:
            arrived.setdefault(request.operation, []).append(request)
        booked: dict[str, list[Booking]] = {}
        for booking in bookings:
            booked.setdefault(booking.operation, []).append(booking)
        for operation in arrived.keys() - calls.keys():
            yield f"{arrived[operation][0].tool} ran, and no call asked for it"
        for operation, call in calls.items():
            runs, done = arrived.get(operation, []), booked.get(operation, [])
            effect = effects.get(operation)
            for said in self._about_runs(call, effect, runs, done, dispatches, retries):
                state = effect["state"] if effect else "none"
                yield f"{call['tool']} {operation} ({call['state']}, effect {state}): {said}"

    def _about_runs(
        self,
        call: Row,
        effect: Row | None,
        runs: list[Request],
        done: list[Booking],
        dispatches: dict[Any, set[str]],
        retries: Counter[str],
    ) -> Iterator[str]:
        if any(run.arguments != call["arguments"] for run in runs):
            yield "it ran with arguments that nobody authorised"
        if effect is None:
            if len(runs) > 2:
                yield f"it ran {len(runs)} times"
            if call["state"] == "completed" and call["tool"] in ("look", "glance", "check") and not runs:
                yield "it is completed and never ran"
            return
        yield from self._about_effect(effect, done, runs, 1 + retries[str(effect["id"])])
        known = dispatches.get(effect["id"], set())
        if any(run.dispatch not in known for run in runs):
            yield "it ran under a dispatch that is not recorded"
        if len({run.dispatch for run in runs}) < len(runs):
            yield "one dispatch ran twice"

    def _about_effect(self, effect: Row, done: list[Booking], runs: list[Request], allowed: int) -> Iterator[str]:
        """`allowed`: one dispatch, and one more for each proof that nothing had happened."""
        if effect["effect_class"] == "external" and effect["dispatches"] > allowed:
            yield f"DOUBLE: {effect['dispatches']} dispatches, {allowed} allowed"
        if effect["dispatches"] > 2 * allowed:
            yield f"{effect['dispatches']} dispatches, {2 * allowed} allowed"
        if len(done) > 1:
            yield f"DOUBLE: it was booked {len(done)} times"
        if effect["state"] == "completed" and not done and effect["tool"] != INWARD:
            yield "it is completed, and nothing is booked"
        if effect["state"] in ("rejected", "abandoned", "safe_to_retry") and done:
            yield "it is booked"
        if effect["dispatches"] == 0 and runs:
            yield "it ran without a dispatch"

    # --- people ------------------------------------------------------------------------------------------------------

    def _against_people(self) -> Iterator[str]:
        recorded = {(str(d["approval_id"]), d["verdict"], d["actor"]) for d in self.rows.decisions}
        for decision, told in self.decided.items():
            if told and decision not in recorded:
                yield f"LOST: {decision[1]} by {decision[2]} was acknowledged and is not recorded"
        for decision in recorded - self.decided.keys():
            yield f"{decision[1]} by {decision[2]} is recorded, and nobody said so"
        ending = [d for d in self.rows.decisions if d["verdict"] not in ("edit", "revoke")]
        effective = Counter(str(d["approval_id"]) for d in ending)
        for approval in self.rows.approvals:
            verdicts = {d["verdict"] for d in self.rows.decisions if d["approval_id"] == approval["id"]}
            if effective[str(approval["id"])] > 1:
                yield "two decisions of one approval are effective"
            if ("deny" in verdicts) != (approval["state"] == "denied"):
                yield f"an approval is {approval['state']}, decided by {verdicts}"
            if approval["state"] in ("approved", "consumed") and "approve" not in verdicts:
                yield f"an approval is {approval['state']}, and nobody approved it"
            if ("revoke" in verdicts) != (approval["state"] == "revoked"):
                yield f"an approval is {approval['state']}, decided by {verdicts}"

    # --- the end -----------------------------------------------------------------------------------------------------

    def counts(self) -> list[str]:
        """When everything has ended: what the downstream counts is what the rows count."""
        said = [] if self.is_over() else ["it never came to an end: " + "; ".join(self._still_open())]
        booked = len(self.downstream.bookings())
        completed = sum(row["state"] == "completed" for row in self._outward())
        if booked != completed:
            said.append(f"{booked} bookings, {completed} effects completed")
        return said

    def _still_open(self) -> Iterator[str]:
        for row in self.rows.sessions:
            if row["state"] not in ("completed", "failed"):
                why = f"{row['interruption'] or ''} {row['stopped_by'] or ''}"
                yield f"session {row['session_id']} is {row['state']} {why}"
        for row in self._outward():
            if row["state"] not in model.CLOSED_EFFECT:
                yield f"effect of {row['tool']} is {row['state']}"

    def endings(self) -> Counter[str]:
        """What came of everything, for the table."""
        ended: Counter[str] = Counter()
        for row in self.rows.sessions:
            ended[f"session {row['state']}"] += 1
        for row in self.rows.calls:
            ended[f"call {row['state']}"] += 1
        for row in self.rows.effects:
            ended[f"effect {row['state']}"] += 1
            if row["receipt"]:
                ended[f"settled by {row['receipt']['source']}"] += 1
            if row["dispatches"] > 1:
                ended["effect dispatched again"] += 1
        ended["decisions"] = len(self.rows.decisions)
        ended["decisions acknowledged"] = sum(self.decided.values())
        ended["requests downstream"] = len(self.downstream.requests())
        ended["bookings downstream"] = len(self.downstream.bookings())
        ended["events"] = len(self.rows.events)
        return ended
