from __future__ import annotations

import uuid

from ..models import Proposal, Session


def find_proposal(tenant: uuid.UUID, session_id: str, action_id: str) -> Proposal | None:
    """The proposal that this session recorded under this `action_id`, in whatever state it is."""
    rows = Proposal.objects.filter(tenant=tenant, action_id=action_id, session__session_id=session_id)
    return rows.first()


def proposals_of(session: Session) -> list[Proposal]:
    """All proposals of a session, in the order in which they were recorded."""
    return list(Proposal.objects.filter(session=session).order_by("created_at", "id"))
