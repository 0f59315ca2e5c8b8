"""Who may do what: the answer to the runtime's question (DESIGN §8), one function per action.

Roles are read from the database when the question is asked, whatever the actor carries; a superuser without a role in
the tenant has no authority in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from cayu_runtime.contracts import Actor, Permit, Refusal
from cayu_runtime.models import Approval, EffectRecord, Session, Tenant

from .selectors.membership import PERSON, roles_of

Answer = Permit | Refusal

OWN_REQUEST = Refusal("own_request", "You asked for this yourself, so somebody else must decide it.")
NO_ROLE = Refusal(
    "not_permitted", "You have no role in this tenant. Ask an administrator for the role viewer or approver."
)
NOT_APPROVER = Refusal(
    "not_permitted", "Deciding needs the role approver, which you do not have here. Ask an administrator for it."
)
ONLY_PEOPLE = Refusal("not_permitted", "Only a person can decide. Agents and their tokens never can.")

NOT_ASKER = Refusal("not_permitted", "Only the person who asked for this session, or an approver, can stop it.")
ONLY_OPERATORS = Refusal("not_permitted", "Dispatch is paused and resumed by an operator: manage.py dispatch.")


class MembershipAuthority:
    """Answers from memberships. What it does not know, it refuses."""

    def may(self, actor: Actor, action: str, obj: Any) -> Answer:
        question = QUESTIONS.get(action)
        if question is None:
            return Refusal("not_permitted", f"Nobody may {action.replace('_', ' ')} here: no rule permits it.")
        return question(actor, obj)


def may_take_part(actor: Actor, tenant: Tenant) -> Answer:
    """To view and to start a session: any role in the tenant."""
    return Permit() if _roles_in(actor, tenant.id) else NO_ROLE


def may_interrupt(actor: Actor, session: Session) -> Answer:
    """To stop a session: who asked for it, or an approver. A stop only ever narrows."""
    roles = _roles_in(actor, session.tenant_id)
    if not roles:
        return NO_ROLE
    return Permit() if "approver" in roles or session.requester == actor.subject else NOT_ASKER


def may_decide(actor: Actor, approval: Approval) -> Answer:
    if actor.source == "api" or not actor.subject.startswith(PERSON):
        return ONLY_PEOPLE
    roles = _roles_in(actor, approval.tenant_id)
    if not roles:
        return NO_ROLE
    if approval.four_eyes and approval.requester == actor.subject:
        return OWN_REQUEST
    return Permit() if "approver" in roles else NOT_APPROVER


def may_settle(actor: Actor, row: EffectRecord | Session) -> Answer:
    """To bring evidence for an uncertain effect, or to give a session up: an approver. Tokens never can."""
    if actor.source == "api" or not actor.subject.startswith(PERSON):
        return ONLY_PEOPLE
    roles = _roles_in(actor, row.tenant_id)
    if not roles:
        return NO_ROLE
    return Permit() if "approver" in roles else NOT_APPROVER


def may_pause_dispatch(actor: Actor, tenant: Tenant | None) -> Answer:
    """The kill switch belongs to who operates the deployment: at a shell, not on a page."""
    return Permit() if actor.source == "shell" else ONLY_OPERATORS


def _roles_in(actor: Actor, tenant_id: UUID) -> frozenset[str]:
    """The roles held now, if this tenant is the one that the actor works in."""
    return roles_of(tenant_id, actor.subject) if actor.tenant == tenant_id else frozenset()


QUESTIONS: dict[str, Callable[[Actor, Any], Answer]] = {
    "view": may_take_part,
    "start_session": may_take_part,
    "interrupt_session": may_interrupt,
    "decide": may_decide,
    "revoke": may_decide,
    "reconcile": may_settle,
    "abandon_session": may_settle,
    "pause_dispatch": may_pause_dispatch,
}
