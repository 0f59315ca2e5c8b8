"""Chain heads that are kept elsewhere: whoever can rewrite the database can't rewrite them.

A chain alone shows that a record was changed in it; that its end was cut off, or that the whole database is an older
one, only an earlier head shows. The file has a line for each chain, `kind tenant owner seq hash`, and ends with
`end COUNT SHA-256` over all before it, so that one that was cut off is no anchor.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import UUID

from ...models import Session, Tenant
from . import PAGE, Damage
from .chains import Head, heads, record_at

FIRST = "cayu anchor 1"


class NoAnchor(Exception):
    """The file can't be used; the message says why."""


def write_anchor(path: Path, tenants: Iterable[Tenant]) -> int:
    """Write the heads of all chains of these tenants as a new file; an old one stays until it is whole. How many."""
    digest, count = hashlib.sha256(), 0
    beside = path.with_name(f"{path.name}.new")
    with beside.open("w", encoding="ascii") as file:

        def put(line: str) -> None:
            digest.update(f"{line}\n".encode("ascii"))
            file.write(f"{line}\n")

        put(FIRST)
        for page in heads(tenants):
            for head in page:
                put(f"{head.kind} {head.tenant} {head.owner} {head.seq} {head.hash.hex()}")
                count += 1
        file.write(f"end {count} {digest.hexdigest()}\n")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    return count


def anchor_damage(path: Path, tenants: Iterable[Tenant]) -> Iterator[Damage]:
    """Chains that are shorter than the anchor says, gone, or have another past. Those of other tenants are passed
    over. Raises NoAnchor when the file is none, or not whole.
    """
    _check_whole(path)
    chosen = {tenant.pk: tenant for tenant in tenants}
    known = set(Tenant.objects.values_list("pk", flat=True))
    batch: list[Head] = []
    for head in _lines(path):
        if head.tenant in chosen:
            batch.append(head)
        elif head.tenant not in known and head.kind == "tenant":
            yield Damage("anchor", f"tenant {head.tenant}", "The anchor knows this tenant; the database does not.")
        if len(batch) == PAGE:
            yield from _compare(batch)
            batch = []
    yield from _compare(batch)


def _compare(anchored: list[Head]) -> Iterator[Damage]:
    sessions = Session.objects.filter(pk__in=[head.owner for head in anchored if head.kind == "session"])
    now = {row.pk: (row.session_id, row.last_seq, row.last_hash) for row in sessions}
    owners = Tenant.objects.filter(pk__in=[head.owner for head in anchored if head.kind == "tenant"])
    now |= {row.pk: (row.slug, row.audit_seq, row.audit_hash) for row in owners}
    for head in anchored:
        name, seq, last = now.get(head.owner, (str(head.owner), -1, b""))
        what = ""
        if seq < 0:
            what = f"The anchor knows this chain, with {head.seq} records; it is gone."
        elif seq < head.seq:
            what = f"The chain went back: {seq} records now, {head.seq} when the anchor was written."
        elif head.seq and (last if seq == head.seq else record_at(head, head.seq)) != head.hash:
            what = f"Record {head.seq} is another one than when the anchor was written."
        if what:
            yield Damage("anchor", f"{head.kind} {name}", what)


def _lines(path: Path) -> Iterator[Head]:
    with path.open(encoding="ascii") as file:
        for line in file:
            kind, *rest = line.split()
            if kind in ("session", "tenant"):
                tenant, owner, seq, digest = rest
                yield Head(kind, UUID(tenant), UUID(owner), int(seq), bytes.fromhex(digest))


def _check_whole(path: Path) -> None:
    digest, count, last = hashlib.sha256(), 0, ""
    try:
        with path.open(encoding="ascii") as file:
            for number, line in enumerate(file):
                if number == 0 and line.strip() != FIRST:
                    raise NoAnchor(f"{path} is no anchor of this system.")
                last = line
                if not line.startswith("end "):
                    digest.update(line.encode("ascii"))
                    count += number > 0
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise NoAnchor(f"{path} can't be read: {reason}.") from None
    if last != f"end {count} {digest.hexdigest()}\n":
        raise NoAnchor(f"{path} is not whole, or was changed: its last line does not fit the others.")
