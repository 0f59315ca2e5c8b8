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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connection, models, transaction

from ..errors import Fenced, IllegalMove, LostRace, NotFound
from ..models import Approval, Attempt, EffectRecord, Event, Proposal, Question, Session, ToolCall, ToolRound
from . import clock, doorbell, states
from .canonical import canonical, storable

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
CHANNEL = "cayu_events"


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
        if _update(kind, values, guard) != 1:
            raise LostRace(f"This {kind.__name__} was moved by somebody else. Read it again.")
        for name, value in values.items():
            setattr(row, name, value)

    def add(self, *rows: models.Model) -> None:
        """Insert rows of one table with one statement."""
        if rows:
            _insert(rows)

    def event(self, kind: str, *, call: ToolCall | None = None, **payload: Any) -> None:
        """Append one event to the session's chain, written at commit."""
        session = self.session
        if call is not None:
            payload = {"call": str(call.id), "call_id": call.call_id, "tool": call.tool, **payload}
        content = storable({"v": 1, **payload})
        if len(canonical(content)) > MAX_PAYLOAD:
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
        note = self._notification()
        if self._new:
            _insert((self.session,), note)
        elif self._dirty:
            values = {name: getattr(self.session, name) for name in self._dirty}
            if _update(Session, values, {"id": self.session.id, "fence": self._fence}, note) != 1:
                raise LostRace("This session was moved by somebody else. Read it again.")
        _insert(self._events)
        if self._wake:
            doorbell.ring(self.session.id)

    def _notification(self) -> str | None:
        """What listeners on PostgreSQL are told with the commit: which session has events up to where."""
        if not self._events or connection.vendor != "postgresql":
            return None
        return f"{self.session.tenant_id}:{self.session.id}:{self.session.last_seq}"


@contextmanager
def transition(session: UUID, *, tenant: UUID | None = None, fence: int | None = None) -> Iterator[Change]:
    """One durable transition of one session. With `fence`, only while that lease still holds the session (else
    Fenced).
    """
    with transaction.atomic(durable=True):
        rows = Session.objects.select_for_update(no_key=True, of=("self",)).filter(pk=session)
        row = (rows if tenant is None else rows.filter(tenant=tenant)).first()
        if row is None:
            raise NotFound("There is no such session.")
        if fence is not None and (row.fence != fence or row.state not in states.LEASED):
            raise Fenced
        change = Change(row, clock.now())
        yield change
        change.commit()


@contextmanager
def new_session(session: Session) -> Iterator[Change]:
    """The first transition of a session: its row is inserted with what the block adds."""
    with transaction.atomic(durable=True):
        change = Change(session, clock.now(), new=True)
        session.created_at = change.now
        yield change
        change.commit()


# ---- statements, compiled once per shape from the models ----


@lru_cache(maxsize=512)
def _update_statement(model: type[models.Model], names: tuple[str, ...], guard: tuple[str, ...]) -> str:
    quote, column = connection.ops.quote_name, _columns(model)
    sets = ", ".join(f"{quote(column[n])} = %s" for n in names)
    where = " AND ".join(f"{quote(column[n])} = %s" for n in guard)
    return f"UPDATE {quote(model._meta.db_table)} SET {sets} WHERE {where}"  # noqa: S608  names come from the models


def _update(model: type[models.Model], values: dict[str, Any], guard: dict[str, Any], note: str | None = None) -> int:
    names, guards = tuple(sorted(values)), tuple(guard)
    parameters = [_prepared(model, n, values[n]) for n in names] + [_prepared(model, n, guard[n]) for n in guards]
    with connection.cursor() as cursor:
        cursor.execute(*_noted(_update_statement(model, names, guards), parameters, note))
        count: int = cursor.rowcount
    return count


@lru_cache(maxsize=128)
def _insert_shape(model: type[models.Model]) -> tuple[str, str, tuple[models.Field[Any, Any], ...]]:
    quote = connection.ops.quote_name
    fields = tuple(f for f in model._meta.concrete_fields if not isinstance(f, models.AutoField))
    columns = ", ".join(quote(str(f.column)) for f in fields)
    head = f"INSERT INTO {quote(model._meta.db_table)} ({columns}) VALUES "  # noqa: S608  names come from the models
    return head, "(" + ", ".join(["%s"] * len(fields)) + ")", fields


def _noted(statement: str, parameters: list[Any], note: str | None) -> tuple[str, list[Any]]:
    """The statement, which also notifies: in the same round trip, and only if it commits."""
    if note is None:
        return statement, parameters
    return f"{statement} RETURNING pg_notify('{CHANNEL}', %s)", [*parameters, note]


def _insert(rows: Sequence[models.Model], note: str | None = None) -> None:
    if not rows:
        return
    head, marks, fields = _insert_shape(type(rows[0]))
    parameters = [f.get_db_prep_save(getattr(row, f.attname), connection) for row in rows for f in fields]
    with connection.cursor() as cursor:
        cursor.execute(*_noted(head + ", ".join([marks] * len(rows)), parameters, note))


@lru_cache(maxsize=64)
def _columns(model: type[models.Model]) -> dict[str, str]:
    return {f.name: str(f.column) for f in model._meta.concrete_fields}


def _prepared(model: type[models.Model], name: str, value: Any) -> Any:
    if isinstance(value, models.Model):
        value = value.pk
    return model._meta.get_field(name).get_db_prep_save(value, connection)  # type: ignore[union-attr]
