"""Who may do what: the answer to the runtime's question (DESIGN §8), one function per action.

Roles are read from the database when the question is asked, whatever the actor carries; a superuser without a role in
the tenant has no authority in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cayu_runtime.contracts import Actor, Permit, Refusal
from cayu_runtime.models import Approval, Tenant

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


class MembershipAuthority:
    """Answers from memberships. What it does not know, it refuses."""

    def may(self, actor: Actor, action: str, obj: Any) -> Answer:
        question = QUESTIONS.get(action)
        if question is None:
            return Refusal("not_permitted", f"Nobody may {action.replace('_', ' ')} here: no rule permits it.")
        return question(actor, obj)


def may_view(actor: Actor, obj: Any) -> Answer:
    return Permit() if roles_of(actor.tenant, actor.subject) else NO_ROLE


def may_start_session(actor: Actor, tenant: Tenant) -> Answer:
    if actor.tenant != tenant.id:
        return NO_ROLE
    return Permit() if roles_of(tenant.id, actor.subject) else NO_ROLE


def may_decide(actor: Actor, approval: Approval) -> Answer:
    if actor.source == "api" or not actor.subject.startswith(PERSON):
        return ONLY_PEOPLE
    roles = roles_of(approval.tenant_id, actor.subject)
    if actor.tenant != approval.tenant_id or not roles:
        return NO_ROLE
    if approval.four_eyes and approval.requester == actor.subject:
        return OWN_REQUEST
    return Permit() if "approver" in roles else NOT_APPROVER


QUESTIONS: dict[str, Callable[[Actor, Any], Answer]] = {
    "view": may_view,
    "start_session": may_start_session,
    "decide": may_decide,
}
