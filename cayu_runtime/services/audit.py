"""A tenant's audit chain: what happens to people, roles, tokens and the deployment, to no session (DESIGN §2).

    with audited(tenant) as trail:
        …                                     the rows that change
        trail.record("role.granted", actor, person="user:7", role="approver")

One transaction: the tenant's row is locked, what the block writes and its entries commit together or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from .. import authority
from ..contracts import Actor
from ..core import clock, results
from ..core.canonical import size_of, storable
from ..core.transitions import chain_hash
from ..core.writers import turn
from ..errors import InvalidRequest, NotFound
from ..models import AuditEntry, Event, Session, Tenant

MAX_PAYLOAD = 8 * 1024
SHELL = "shell"
READ = 500  # rows fetched at a time


class Trail:
    """The chain of one tenant whose row is locked. `now` is the database's clock after the lock."""

    def __init__(self, tenant: Tenant, now: datetime) -> None:
        self.tenant = tenant
        self.now = now

    def record(self, kind: str, actor: Actor | None, /, **payload: Any) -> AuditEntry:
        """Append one entry. `actor` None is an operator at a shell. Never hand over a secret, a token or a password."""
        by = SHELL if actor is None else actor.subject
        said = {"by_name": SHELL if actor is None else actor.name, "source": SHELL if actor is None else actor.source}
        content = storable({"v": 1, **said, **payload})
        if size_of(content) > MAX_PAYLOAD:
            content = {"v": 1, **said, "$truncated": f"payload over {MAX_PAYLOAD // 1024} KiB"}
        tenant = self.tenant
        tenant.audit_seq += 1
        tenant.audit_hash = chain_hash(tenant.audit_hash, tenant.id, tenant.audit_seq, kind, self.now, content)
        entry = AuditEntry(
            tenant=tenant,
            seq=tenant.audit_seq,
            type=kind,
            actor=by,
            payload=content,
            at=self.now,
            hash=tenant.audit_hash,
        )
        entry.save(force_insert=True)
        tenant.save(update_fields=["audit_seq", "audit_hash"])
        return entry


@contextmanager
def audited(tenant: UUID) -> Iterator[Trail]:
    """Lock this tenant for a change that belongs on its chain. NotFound without such a tenant."""
    with turn(), transaction.atomic():
        row = Tenant.objects.select_for_update(no_key=True).filter(pk=tenant).first()
        if row is None:
            raise NotFound("There is no such tenant.")
        yield Trail(row, clock.now())


def record(tenant: UUID | None, kind: str, actor: Actor | None, /, **payload: Any) -> None:
    """Append one entry about something that changes no row of the tenant: a sign-in, a refusal, an export.

    None: about the whole deployment, so it stands on the chain of each of its tenants, one transaction each.
    """
    everywhere = {"everywhere": True} if tenant is None else {}
    concerned = [tenant] if tenant is not None else Tenant.objects.order_by("pk").values_list("pk", flat=True)
    for key in concerned:
        with audited(key) as trail:
            trail.record(kind, actor, **payload, **everywhere)


def export_records(tenant: Tenant, actor: Actor, *, reason: str) -> Iterator[dict[str, Any]]:
    """Every audit entry of a tenant, then every event of its sessions in the order of the chains, one after the other.

    That somebody took them, and why, stands on the tenant's chain before the first is given. NotPermitted by the
    authority; InvalidRequest without a reason.
    """
    authority.require(actor, "audit", tenant)
    said = results.clean_text(reason, 500)
    if not said:
        raise InvalidRequest("Say why: an export needs a reason, which stays on record.")
    record(tenant.pk, "records.exported", actor, reason=said)
    return _records(tenant)


def _records(tenant: Tenant) -> Iterator[dict[str, Any]]:
    for entry in AuditEntry.objects.filter(tenant=tenant).order_by("seq").iterator(READ):
        yield _shown("audit", tenant.slug, entry)
    for session in Session.objects.filter(tenant=tenant).order_by("pk").values_list("pk", "session_id").iterator(READ):
        for event in Event.objects.filter(session=session[0]).order_by("seq").iterator(READ):
            yield _shown("event", session[1], event)


def _shown(kind: str, of: str, row: AuditEntry | Event) -> dict[str, Any]:
    moment = row.at.astimezone(UTC).isoformat()
    told = {"seq": row.seq, "type": row.type, "at": moment, "payload": row.payload, "hash": bytes(row.hash).hex()}
    return {"kind": kind, "of": of, **told}
