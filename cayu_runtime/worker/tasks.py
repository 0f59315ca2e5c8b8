"""Entry points of the queue. A task carries one id; delivered once, often or never, the row decides."""

from __future__ import annotations

import os
import socket
from uuid import UUID

import structlog

from ..core import engine

log = structlog.get_logger(__name__)


def worker_name() -> str:
    """Who holds a lease: host and process."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}"


def run_session(session: str) -> None:
    with structlog.contextvars.bound_contextvars(session=session):
        engine.run_session(UUID(session), worker_name())
