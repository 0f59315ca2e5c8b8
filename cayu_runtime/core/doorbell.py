"""Wake-ups: a queue task that carries one id. The row decides what is to be done (DESIGN §6).

The queue's table lies in the same database, so a ring inside a transaction is rolled back with it.
"""

from __future__ import annotations

from uuid import UUID

from django_q.tasks import async_task

ENTRY = "cayu_runtime.worker.tasks.run_session"


def ring(session: UUID) -> None:
    """Ask a worker to look at this session. May be lost or repeated; the sweep and the claim make up for both."""
    async_task(ENTRY, str(session))
