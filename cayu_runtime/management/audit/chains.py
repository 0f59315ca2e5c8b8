"""Whether each chain of records is whole: gapless, each hash over the one before, its head as its owner's row says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC
from itertools import groupby
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Model

from ...core.transitions import chain_hash
from ...models import AuditEntry, Event, Message, Session, Tenant
from . import PAGE, Damage

GENESIS = bytes(32)
READ = 2000
TRIES = 3


@dataclass(frozen=True, slots=True)
class Head:
    """The end of one chain, as its owner's row says it. `kind`: `session` or `tenant`."""

    kind: str
    tenant: UUID
    owner: UUID
    seq: int
    hash: bytes


def heads(tenants: Iterable[Tenant]) -> Iterator[list[Head]]:
    """Every chain of these tenants, in pages by key."""
    for tenant in tenants:
        yield [Head("tenant", tenant.pk, tenant.pk, tenant.audit_seq, tenant.audit_hash)]
        for page in session_pages(tenant):
            yield [Head("session", tenant.pk, row.pk, row.last_seq, row.last_hash) for row in page]


def session_pages(tenant: Tenant) -> Iterator[list[Session]]:
    columns = ("id", "tenant_id", "session_id", "last_seq", "last_hash", "messages")
    after: UUID | None = None
    while True:
        rows = Session.objects.filter(tenant=tenant).only(*columns).order_by("id")
        page = list((rows if after is None else rows.filter(id__gt=after))[:PAGE])
        if page:
            yield page
            after = page[-1].pk
        if len(page) < PAGE:
            return


def chain_damage(tenants: Iterable[Tenant]) -> Iterator[Damage]:
    for tenant in tenants:
        yield from _audit_damage(tenant)
        for page in session_pages(tenant):
            yield from _page_damage(page)


def _page_damage(page: list[Session]) -> Iterator[Damage]:
    """A session that moves while it is read looks damaged: what is found is looked at again, from its row on."""
    found = _events_of(page) | {}
    for session in page:
        damage = found.get(session.pk)
        tries = 0
        while damage is not None and tries < TRIES:
            session.refresh_from_db(fields=["last_seq", "last_hash", "messages"])
            damage = _events_of([session]).get(session.pk)
            tries += 1
        if damage is not None:
            yield damage
    yield from _transcript_damage(page)


def _events_of(page: list[Session]) -> dict[UUID, Damage]:
    """The first damage of each chain."""
    rows = Event.objects.filter(session__in=[session.pk for session in page]).order_by("session_id", "seq")
    found: dict[UUID, Damage] = {}
    seen: set[UUID] = set()
    sessions = {session.pk: session for session in page}
    for key, events in groupby(rows.iterator(READ), key=lambda event: event.session_id):
        session = sessions[key]
        seen.add(key)
        where = f"session {session.session_id}"
        problem = _problem(events, key, session.tenant_id, session.last_seq, session.last_hash)
        if problem:
            found[key] = Damage("event_chain", where, problem)
    for session in page:
        if session.pk not in seen and (session.last_seq, session.last_hash) != (0, GENESIS):
            what = f"All events are gone; its row says that there are {session.last_seq}."
            found[session.pk] = Damage("event_chain", f"session {session.session_id}", what)
    return found


def _audit_damage(tenant: Tenant) -> Iterator[Damage]:
    problem = ""
    for _ in range(TRIES):
        entries = AuditEntry.objects.filter(tenant=tenant).order_by("seq").iterator(READ)
        problem = _problem(entries, tenant.pk, tenant.pk, tenant.audit_seq, tenant.audit_hash)
        if not problem:
            return
        tenant.refresh_from_db(fields=["audit_seq", "audit_hash"])
    yield Damage("audit_chain", f"tenant {tenant.slug}", problem)


def _problem(records: Iterable[Any], owner: UUID, tenant: UUID, last_seq: int, last_hash: bytes) -> str:
    """What is wrong with one chain, as a sentence; empty when it is whole. Newer records than its row's are whole too:
    they were written meanwhile.
    """
    expected, previous = 1, GENESIS
    at_head = GENESIS if last_seq == 0 else None
    for record in records:
        if record.seq != expected:
            return f"Record {expected} is missing; {record.seq} follows {expected - 1}."
        if record.tenant_id != tenant:
            return f"Record {record.seq} belongs to another tenant."
        wanted = chain_hash(previous, owner, record.seq, record.type, record.at.astimezone(UTC), record.payload)
        if record.hash != wanted:
            return f"Record {record.seq} ({record.type}) is not what its hash was made of."
        expected, previous = expected + 1, wanted
        if record.seq == last_seq:
            at_head = wanted
    if at_head is None:
        return f"The chain ends at {expected - 1}; its row says {last_seq}."
    if at_head != last_hash:
        return f"The head on its row is not the hash of record {last_seq}."
    if expected - 1 > last_seq:
        return f"The chain goes on to {expected - 1}; its row says {last_seq}."
    return ""


def _transcript_damage(page: list[Session]) -> Iterator[Damage]:
    """Positions of a transcript are 0, 1, 2 … as many as the session counted."""
    found = Message.objects.filter(session__in=[session.pk for session in page]).values_list("session_id")
    counted = {key: (count, last) for key, count, last in found.annotate(Count("id"), Max("position"))}
    for session in page:
        count, last = counted.get(session.pk, (0, -1))
        if (count, last) != (session.messages, session.messages - 1):
            session.refresh_from_db(fields=["messages"])
            rows = Message.objects.filter(session=session).aggregate(Count("id"), Max("position"))
            count, last = rows["id__count"], -1 if rows["position__max"] is None else rows["position__max"]
        if (count, last) != (session.messages, session.messages - 1):
            what = f"The transcript has {count} entries up to {last}; its session counted {session.messages}."
            yield Damage("transcript", f"session {session.session_id}", what)


def record_at(head: Head, seq: int) -> bytes | None:
    """The hash of one record of a chain; None if it is not there."""
    model: type[Model] = Event if head.kind == "session" else AuditEntry
    owner = {"session": head.owner} if head.kind == "session" else {"tenant": head.owner}
    found: bytes | None = model._default_manager.filter(**owner, seq=seq).values_list("hash", flat=True).first()
    return found
