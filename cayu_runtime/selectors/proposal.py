from __future__ import annotations

import uuid

from ..models import Proposal, Session, Tenant

PAGE = 50


def find_proposal(tenant: uuid.UUID, session_id: str, action_id: str) -> Proposal | None:
    """The proposal that this session recorded under this `action_id`, in whatever state it is."""
    rows = Proposal.objects.filter(tenant=tenant, action_id=action_id, session__session_id=session_id)
    return rows.first()


def proposal_of_action(tenant: Tenant, action_id: str) -> Proposal | None:
    """The one proposal of the tenant under this `action_id`, whichever session recorded it, with that session."""
    return Proposal.objects.select_related("session").filter(tenant=tenant, action_id=action_id).first()


def proposals_of(session: Session) -> list[Proposal]:
    """All proposals of a session, in the order in which they were recorded."""
    return list(Proposal.objects.filter(session=session).order_by("created_at", "id"))


def proposals_after(
    tenant: Tenant, session: Session | None = None, after: str = "", limit: int = PAGE
) -> list[Proposal]:
    """A page of proposals, of one session or of the tenant, by their action_id; `after` is the last row's."""
    rows = Proposal.objects.filter(tenant=tenant, action_id__gt=after).select_related("session")
    if session is not None:
        rows = rows.filter(session=session)
    return list(rows.order_by("action_id")[:limit])
