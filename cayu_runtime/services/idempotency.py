"""A request that may be sent again: what it does is committed with its key, so it is done once (DESIGN §10)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, OperationalError, connection

from ..contracts import Actor
from ..core import canonical, clock, ids
from ..core.statements import find
from ..core.transitions import Change
from ..errors import IdempotencyConflict, InvalidRequest, Unfinished
from ..models import IdempotencyKey, Session, Tenant
from ..selectors.idempotency import find_key

LIFETIME = timedelta(hours=24)
WAIT_SECONDS = 2.0
KEY = re.compile(r"[\x21-\x7e]{1,200}")
BATCH = 500

Keep = Callable[[Change], None]
"""Called first thing in a transition: records that this request is carried out by it."""


class _Taken(Exception):
    """The same key was committed by somebody else a moment ago."""


@dataclass(frozen=True, slots=True)
class Done:
    """What the request did: the session, and the position of the message it added. `replay`: it had been done."""

    session: Session
    position: int
    replay: bool


def do_once(tenant: Tenant, actor: Actor, key: str, request: Mapping[str, Any], act: Callable[[Keep], Session]) -> Done:
    """Carry out `act` once for this key of this actor in this tenant, for 24 hours.

    The same `request` again gives what the first one did, also when both are sent at one moment: the later waits for
    the earlier, at most WAIT_SECONDS, then it is Unfinished. Another request under the key is an IdempotencyConflict.
    What `act` refuses is not kept: the key is free again.
    """
    if not KEY.fullmatch(key):
        raise InvalidRequest("An Idempotency-Key has 1 to 200 visible ASCII characters. A random UUID is a good one.")
    digest = canonical.digest(dict(request))
    made: list[int] = []

    def keep(change: Change) -> None:
        made.append(change.session.messages)
        _record(change, actor.subject, key, digest)

    done = _done(tenant, actor.subject, key, digest)
    if done is None:
        try:
            return Done(act(keep), made[-1], replay=False)
        except _Taken:
            done = _done(tenant, actor.subject, key, digest)
    if done is None:
        raise Unfinished("The same request failed a moment ago. Send it again.")
    return done


def forget_keys() -> int:
    """Delete keys whose time is over, at most BATCH of them. The sweep's."""
    over = IdempotencyKey.objects.filter(expires_at__lte=clock.now()).order_by("expires_at")
    found = list(over.values_list("id", flat=True)[:BATCH])
    return IdempotencyKey.objects.filter(id__in=found).delete()[0] if found else 0


def _done(tenant: Tenant, owner: str, key: str, digest: bytes) -> Done | None:
    kept = find_key(tenant, owner, key)
    if kept is None:
        return None
    if kept.request_digest != digest:
        raise IdempotencyConflict("This Idempotency-Key was used for another request. Send this one under a new key.")
    return Done(kept.session, kept.position, replay=True)


def _record(change: Change, owner: str, key: str, digest: bytes) -> None:
    session = change.session
    row = IdempotencyKey(
        id=ids.new_id(),
        tenant_id=session.tenant_id,
        owner=owner,
        key=key,
        request_digest=digest,
        session=session,
        position=session.messages,
        created_at=change.now,
        expires_at=change.now + LIFETIME,
    )
    over = IdempotencyKey.objects.filter(tenant=session.tenant_id, owner=owner, key=key, expires_at__lte=change.now)
    try:
        _wait_at_most(f"{int(WAIT_SECONDS * 1000)}ms")
        if find(IdempotencyKey, tenant=session.tenant_id, owner=owner, key=key) is not None:
            over.delete()
        change.add(row)
        _wait_at_most("DEFAULT")
    except IntegrityError:
        raise _Taken from None
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") != "55P03":  # lock_not_available
            raise
        raise Unfinished("The same request is still being worked on. Send it again in a moment.") from None


def _wait_at_most(length: str) -> None:
    """How long the next statements wait for a lock. On SQLite there is one writer, so nobody is met halfway."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = {length if length == 'DEFAULT' else repr(length)}")
