from __future__ import annotations

import uuid

from ..models import Proposal, Session


def find_proposal(tenant: uuid.UUID, action_id: str) -> Proposal | None:
    """The proposal that stands under this `action_id` in the tenant, in whatever state, with its session."""
    return Proposal.objects.select_related("session").filter(tenant=tenant, action_id=action_id).first()


def proposals_of(session: Session) -> list[Proposal]:
    """All proposals of a session, in the order in which they were recorded."""
    return list(Proposal.objects.filter(session=session).order_by("created_at", "id"))
