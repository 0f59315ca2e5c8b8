"""The one transition function (DESIGN §6).

    with transition(session_id) as change:
        change.move(call, "prepared")
        change.event("tool.call.approved", call=call, by=actor.subject)
        change.session_to("pending", runnable_at=change.now)
        change.wake()

One transaction: lock the session's row, read the database's clock, move rows by conditional UPDATE whose row count
must be 1, append events to the chain, write the session row once, ring the doorbell. All of it commits or none.
Nothing else moves a row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, models, transaction

from ..errors import Fenced, IllegalMove, LostRace, NotFound
from ..models import Approval, Attempt, EffectRecord, Event, Proposal, Question, Session, ToolCall, ToolRound
from . import clock, doorbell, points, states
from .announce import announce
from .canonical import canonical, size_of, storable
from .statements import fetch, insert, prepared, reader, update
from .writers import turn

MACHINES: dict[type[models.Model], states.Machine] = {
    Session: states.SESSION,
    ToolRound: states.ROUND,
    ToolCall: states.CALL,
    EffectRecord: states.EFFECT,
    Approval: states.APPROVAL,
    Proposal: states.PROPOSAL,
    Question: states.QUESTION,
    Attempt: states.ATTEMPT,
}
CLOSED_AT = {ToolRound: "settled_at", ToolCall: "finished_at"}
VERSION = {ToolCall: "version", Approval: "version", EffectRecord: "revision"}
MAX_PAYLOAD = 16 * 1024


def chain_hash(previous: bytes, owner: UUID, seq: int, kind: str, at: datetime, payload: Any) -> bytes:
    """The hash of one chained record: SHA-256 over the previous hash and this record's canonical content."""
    content = {"owner": str(owner), "seq": seq, "type": kind, "at": at.isoformat(), "payload": payload}
    return hashlib.sha256(previous + canonical(content)).digest()


class Change:
    """What one transition writes. `session` is the locked row as it will be, `now` the database's clock after the
    lock.
    """

    def __init__(self, session: Session, now: datetime, *, new: bool = False) -> None:
        self.session = session
        self.now = now
        self._new = new
        self._fence = session.fence
        self._dirty: set[str] = set()
        self._events: list[Event] = []
        self._wake = False

    def move(self, row: models.Model, to: str, **values: Any) -> None:
        """Move a row of this session to state `to`. LostRace if it is no longer as it was read; IllegalMove if not
        listed.
        """
        kind = type(row)
        machine = MACHINES[kind]
        source: str = row.state  # type: ignore[attr-defined]
        if not machine.allows(source, to):
            raise IllegalMove(f"{machine.name}: {source} → {to} is not a legal move.")
        if to in machine.final:
            values[CLOSED_AT.get(kind, "closed_at")] = self.now
        self._update(row, {"state": to, **values})

    def update(self, row: models.Model, **values: Any) -> None:
        """Change evidence of a row that stays in its state."""
        self._update(row, values)

    def _update(self, row: models.Model, values: dict[str, Any]) -> None:
        kind = type(row)
        if getattr(row, "session_id", self.session.pk) != self.session.pk:
            raise IllegalMove(f"This {kind.__name__} belongs to another session, which this transition has not locked.")
        guard = {"id": row.pk, "state": row.state}  # type: ignore[attr-defined]
        if kind in VERSION:
            guard[VERSION[kind]] = getattr(row, VERSION[kind])
        if kind is EffectRecord:
            values["revision"] = guard["revision"] + 1
        if update(kind, values, guard) != 1:
            raise LostRace(f"This {kind.__name__} was moved by somebody else. Read it again.")
        for name, value in values.items():
            setattr(row, name, value)

    def close_attempt(self, effect: EffectRecord, state: str, evidence: Any) -> None:
        """Move the admitted attempt of an effect, if there is one. There is never more than one."""
        machine = MACHINES[Attempt]
        if not machine.allows("admitted", state):
            raise IllegalMove(f"{machine.name}: admitted → {state} is not a legal move.")
        values = {"state": state, "evidence": storable(evidence), "closed_at": self.now}
        update(Attempt, values, {"effect": effect.pk, "state": "admitted"})

    def add(self, *rows: models.Model) -> None:
        """Insert rows of one table with one statement."""
        if rows:
            insert(rows)

    def event(self, kind: str, /, *, call: ToolCall | None = None, **payload: Any) -> None:
        """Append one event to the session's chain, written at commit."""
        session = self.session
        if call is not None:
            payload = {"call": str(call.id), "call_id": call.call_id, "tool": call.tool, **payload}
        content = storable({"v": 1, **payload})
        if size_of(content) > MAX_PAYLOAD:
            content = {"v": 1, "call": content.get("call"), "$truncated": "payload over 16 KiB"}
        session.last_seq += 1
        session.last_hash = chain_hash(session.last_hash, session.id, session.last_seq, kind, self.now, content)
        self._dirty |= {"last_seq", "last_hash"}
        self._events.append(
            Event(
                tenant_id=session.tenant_id,
                session=session,
                seq=session.last_seq,
                type=kind,
                payload=content,
                at=self.now,
                hash=session.last_hash,
            )
        )

    def session_to(self, state: str, **values: Any) -> None:
        """Move the session itself. What the new state can't have (lease, back-off, interruption, end) is cleared
        here.
        """
        session = self.session
        if not self._new and not states.SESSION.allows(session.state, state):
            raise IllegalMove(f"session: {session.state} → {state} is not a legal move.")
        cleared: dict[str, Any] = {}
        if state not in states.LEASED:
            cleared |= {"lease_owner": None, "lease_until": None}
        if state != "pending":
            cleared["runnable_at"] = None
        if state != "interrupted":
            cleared["interruption"] = None
        if state != "failed":
            cleared["failure"] = None
        cleared["finished_at"] = self.now if state in ("completed", "failed") else None
        self.set(state=state, **{**cleared, **values})

    def set(self, **values: Any) -> None:
        """Change columns of the session row, written at commit."""
        for name, value in values.items():
            if getattr(self.session, name) != value:
                setattr(self.session, name, value)
                self._dirty.add(name)

    def next(self, counter: str) -> int:
        """The next position of `messages` or `rounds`, counted on the session row."""
        position: int = getattr(self.session, counter)
        self.set(**{counter: position + 1})
        return position

    def wake(self) -> None:
        """Ring the doorbell for this session, in the same transaction."""
        self._wake = True

    def commit(self) -> None:
        if self._new or self._dirty:
            self.set(updated_at=self.now)
        if self._new:
            insert((self.session,))
        elif self._dirty:
            values = {name: getattr(self.session, name) for name in self._dirty}
            if update(Session, values, {"id": self.session.id, "fence": self._fence}) != 1:
                raise LostRace("This session was moved by somebody else. Read it again.")
        insert(self._events)
        if self._wake:
            doorbell.ring(self.session.id)

    def announce(self) -> None:
        """After the commit: tell listeners, if there are events."""
        if self._events:
            announce(self.session.tenant_id, self.session.id, self.session.last_seq)


@contextmanager
def transition(session: UUID, *, tenant: UUID | None = None, fence: int | None = None) -> Iterator[Change]:
    """One durable transition of one session. With `fence`, only while that lease still holds the session (else
    Fenced).
    """
    with turn(), transaction.atomic(durable=True):
        row, now = _lock(session, tenant)
        if fence is not None and (row.fence != fence or row.state not in states.LEASED):
            raise Fenced
        change = Change(row, now)
        yield change
        change.commit()
        points.reached(points.BEFORE_COMMIT)
    points.reached(points.AFTER_COMMIT)
    change.announce()


def _lock(session: UUID, tenant: UUID | None) -> tuple[Session, datetime]:
    """The locked row, and the database's clock after the lock: the inner statement waits, the outer one looks."""
    read = reader(Session, "s")
    where, values = "id = %s", [prepared(Session, "id", session)]
    if tenant is not None:
        where, values = f"{where} AND tenant_id = %s", [*values, prepared(Session, "tenant", tenant)]
    if connection.vendor == "postgresql":
        rows = f"(SELECT * FROM {Session._meta.db_table} WHERE {where} FOR NO KEY UPDATE) s"  # noqa: S608
    else:
        rows = f"{read.table} WHERE {where}"
    found = fetch(f"SELECT {read.columns}, {clock.expression()} FROM {rows}", values)  # noqa: S608
    if not found:
        raise NotFound("There is no such session.")
    return read.row(found[0][:-1]), clock.moment(found[0][-1])


@contextmanager
def new_session(session: Session) -> Iterator[Change]:
    """The first transition of a session: its row is inserted with what the block adds."""
    with turn(), transaction.atomic(durable=True):
        change = Change(session, clock.now(), new=True)
        session.created_at = change.now
        yield change
        change.commit()
        points.reached(points.BEFORE_COMMIT)
    points.reached(points.AFTER_COMMIT)
    change.announce()
