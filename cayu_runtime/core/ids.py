"""Identities and keys come from here (DESIGN §5)."""

from __future__ import annotations

import base64
import hashlib
import secrets
import uuid

import uuid_utils


def new_id() -> uuid.UUID:
    """A time-ordered random id (UUIDv7)."""
    return uuid.UUID(bytes=uuid_utils.uuid7().bytes)


def new_key() -> str:
    """An idempotency key: 256 random bits. Made once per operation and stored."""
    return secrets.token_urlsafe(32)


def key_after(key: str) -> str:
    """The key of an operation whose earlier one the downstream has barred. It follows from the earlier one: after a
    restored backup the same step leads to the same key, under which the downstream knows what it has done.
    """
    digest = hashlib.sha256(f"the key after {key}".encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def operation_id(tenant: uuid.UUID, session: uuid.UUID, round_position: int, call_id: str) -> str:
    """The identity of an operation that has no proposal: fixed by tenant, session, round and call."""
    text = f"{tenant}\n{session}\n{round_position}\n{call_id}"
    return f"op_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
