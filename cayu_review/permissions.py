"""Who may do what: the answer to the runtime's question (DESIGN §8), one function per action.

Roles are read from the database when the question is asked, whatever the actor carries. A superuser without a role in
the tenant has no authority over what happens in it; they manage people, in every tenant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser

from cayu_runtime.contracts import Actor, Permit, Refusal
from cayu_runtime.models import Approval, EffectRecord, Grant, Question, Session, Tenant
from cayu_runtime.selectors.approval import has_edited

from .models import Membership
from .selectors.identity import wants_fresh_sign_in
from .selectors.membership import PERSON, held_in, is_of_tenant_alone, is_superuser
from .selectors.token import TOKEN, made_token_for, scopes_of

Answer = Permit | Refusal

OWN_REQUEST = Refusal("own_request", "You asked for this yourself, so somebody else must decide it.")
TOKEN_MAKER = Refusal(
    "own_request",
    "You made a token that asks in somebody else's name, so a standing grant is for somebody else to make.",
)
OWN_TOKEN = Refusal(
    "own_request",
    "You made a token that asks in this person's name, so what is asked in their name somebody else must decide.",
)
OWN_CHANGE = Refusal("own_request", "You changed these arguments yourself, so somebody else must agree to them.")
STEP_UP = Refusal(
    "step_up_required",
    "This tenant asks for a fresh sign-in before what cannot be undone is decided. Sign in again, then decide.",
)
NO_ROLE = Refusal(
    "not_permitted", "You have no role in this tenant. Ask an administrator for the role viewer or approver."
)
NOT_APPROVER = Refusal(
    "not_permitted", "Deciding needs the role approver, which you do not have here. Ask an administrator for it."
)
NOT_RECONCILER = Refusal(
    "not_permitted",
    "This needs the role reconciler or approver, which you do not have here. Ask an administrator for it.",
)
ONLY_PEOPLE = Refusal("not_permitted", "Only a person can decide. Agents and their tokens never can.")

OUT_OF_REACH = Refusal(
    "not_permitted",
    "Your role here is limited to other tools or targets. Ask an administrator, or leave it to somebody who may.",
)
NOT_WHOLE = Refusal(
    "not_permitted",
    "Your role here is limited to some tools or targets, and this concerns the whole session. "
    "Leave it to somebody without such a limit.",
)
NOT_STARTER = Refusal(
    "not_permitted", "Starting a session needs the role viewer or approver. Ask an administrator for it."
)
NOT_AUDITOR = Refusal(
    "not_permitted",
    "Reading the records needs the role auditor, which you do not have here. Ask an administrator for it.",
)
NOT_ADMINISTRATOR = Refusal(
    "not_permitted", "Managing people needs the role administrator in their tenant, or a superuser."
)
NOT_YOURS = Refusal(
    "not_permitted",
    "This account comes from the identity provider, or has authority outside of your tenant. "
    "Only a superuser can change it.",
)
ONLY_PEOPLE_ANSWER = Refusal("not_permitted", "Only a person can answer. Agents and their tokens never can.")
NOT_ASKED = Refusal(
    "not_permitted",
    "Only the person who asked for this session, or an approver, can answer. Ask an administrator for that role.",
)
NOT_ASKER = Refusal("not_permitted", "Only the person who asked for this session, or an approver, can do this.")
ONLY_ASKER = Refusal(
    "not_permitted", "Only the person who asked for this session can go on with it. Start another one."
)
NOT_ITS_SESSION = Refusal(
    "not_permitted", "This token acts for another person than the one who asked for this session."
)
NO_ROLE_BEHIND = Refusal("not_permitted", "The person for whom this token acts has no role in its tenant any more.")
ONLY_OPERATORS = Refusal(
    "not_permitted",
    "Dispatch is paused and resumed by an administrator of this tenant, or by an operator: manage.py dispatch.",
)
NOT_LIMITER = Refusal(
    "not_permitted",
    "Limits are set by an administrator of this tenant, or by an operator: manage.py tenant limits.",
)
NOT_GRANTER = Refusal(
    "not_permitted",
    "A standing grant needs the role approver, which you don't have here. Ask an administrator.",
)
TARGETS_LIMITED = Refusal(
    "not_permitted",
    "Your role here is limited to other tools or to some targets, and a grant is about every target of its tool. "
    "Leave it to somebody who may.",
)
NOT_REVOKER = Refusal("not_permitted", "Taking a grant back needs the role approver or administrator in this tenant.")
ONLY_SHELL = Refusal("not_permitted", "A quarantine belongs to an operator: manage.py recovery quarantine.")


class MembershipAuthority:
    """Answers from memberships, and for a token from its scopes. What it does not know, it refuses."""

    def may(self, actor: Actor, action: str, obj: Any) -> Answer:
        question = QUESTIONS.get(action)
        if question is None:
            return Refusal("not_permitted", f"Nobody may {action.replace('_', ' ')} here: no rule permits it.")
        if actor.subject.startswith(TOKEN):
            return may_by_token(actor, action, obj)
        return question(actor, obj)


def may_by_token(actor: Actor, action: str, obj: Any) -> Answer:
    """A token never decides. It may do what its scopes say and its person may do themselves at this moment, in sessions
    that this person asked for.
    """
    scope = SCOPE_OF.get(action)
    if scope is None:
        return ONLY_PEOPLE
    tenant_id = obj.id if isinstance(obj, Tenant) else obj.tenant_id
    if actor.tenant != tenant_id:
        return NO_ROLE_BEHIND
    if scope not in scopes_of(tenant_id, actor.subject, actor.on_behalf_of):
        return Refusal("not_permitted", f"This token lacks the scope {scope!r}. Make one that has it.")
    if isinstance(obj, Session) and obj.requester != actor.on_behalf_of:
        return NOT_ITS_SESSION
    answer = QUESTIONS[action](replace(actor, subject=actor.on_behalf_of), obj)
    return NO_ROLE_BEHIND if answer is NO_ROLE else answer


def may_take_part(actor: Actor, tenant: Tenant) -> Answer:
    """To view: any role in the tenant."""
    return Permit() if _roles_in(actor, tenant.id) else NO_ROLE


def may_start(actor: Actor, tenant: Tenant) -> Answer:
    """To start a session: not for those who only audit, or only manage people."""
    roles = _roles_in(actor, tenant.id)
    if not roles:
        return NO_ROLE
    return Permit() if roles.keys() & {"viewer", "approver"} else NOT_STARTER


def may_audit(actor: Actor, tenant: Tenant) -> Answer:
    """To read every row of the tenant. For superusers too, the role decides."""
    return Permit() if "auditor" in _roles_in(actor, tenant.id) else NOT_AUDITOR


def may_manage_people(actor: Actor, tenant: Tenant | None) -> Answer:
    """To make accounts, and to give and take roles: an administrator in their tenant, a superuser in each."""
    if actor.source == "api":
        return NOT_ADMINISTRATOR
    if is_superuser(actor.subject):
        return Permit()
    if tenant is None:
        return NOT_ADMINISTRATOR
    return Permit() if "administrator" in _roles_in(actor, tenant.id) else NOT_ADMINISTRATOR


def may_manage_account(actor: Actor, user: AbstractBaseUser) -> Answer:
    """To change a name, a password, or whether an account is on.

    An administrator may if all authority of the account lies in their tenant: whoever can set a password can act as
    that person, in every tenant where they hold a role.
    """
    if actor.source == "api":
        return NOT_ADMINISTRATOR
    if is_superuser(actor.subject):
        return Permit()
    if "administrator" not in _roles_in(actor, actor.tenant):
        return NOT_ADMINISTRATOR
    return Permit() if is_of_tenant_alone(user, actor.tenant) else NOT_YOURS


def may_interrupt(actor: Actor, session: Session) -> Answer:
    """To stop a session or lift a stop: who asked for it, or an approver. Neither grants anything."""
    roles = _roles_in(actor, session.tenant_id)
    if not roles:
        return NO_ROLE
    return Permit() if "approver" in roles or session.requester == actor.subject else NOT_ASKER


def may_ask_further(actor: Actor, session: Session) -> Answer:
    """To send a session a message or a proposal: who asked for it alone. By four eyes an approver of what comes of it
    must not have asked for it.
    """
    if not _roles_in(actor, session.tenant_id):
        return NO_ROLE
    return Permit() if session.requester == actor.subject else ONLY_ASKER


def may_decide(actor: Actor, approval: Approval) -> Answer:
    """What can't be undone needs a fresh sign-in, where the tenant asks for one: a page left open decides nothing."""
    answer = may_revoke(actor, approval)
    if isinstance(answer, Permit) and approval.effect_class == "external":
        if wants_fresh_sign_in(approval.tenant_id, actor.authenticated_at):
            return STEP_UP
    return answer


def may_revoke(actor: Actor, approval: Approval) -> Answer:
    """To take an approval back, or to say that one looks at it: whoever may decide it, however long ago they signed in,
    as nothing is sent by it.
    """
    if actor.source == "api" or not actor.subject.startswith(PERSON):
        return ONLY_PEOPLE
    roles = _roles_in(actor, approval.tenant_id)
    if not roles:
        return NO_ROLE
    if approval.four_eyes and approval.requester == actor.subject:
        return OWN_REQUEST
    if approval.four_eyes and approval.edited_by and has_edited(approval, actor.subject):
        return OWN_CHANGE
    if approval.four_eyes and made_token_for(approval.tenant_id, actor.subject, approval.requester):
        return OWN_TOKEN
    held = roles.get("approver")
    if held is None:
        return NOT_APPROVER
    if not held.covers(approval.tool, approval.target):
        return OUT_OF_REACH
    return Permit() if held.tier >= approval.tier else _too_low(approval.tier, held.tier)


def _too_low(needed: int, held: int) -> Refusal:
    return Refusal(
        "not_permitted",
        f"This needs an approver of tier {needed} or above; you are one of tier {held} here. Leave it to one of them.",
    )


def may_settle(actor: Actor, row: EffectRecord | Session) -> Answer:
    """To bring evidence for an uncertain effect, to recover a session or give it up: a reconciler, or an approver.
    Whose role is limited may settle the effects that it reaches, and no whole session. Tokens never can.
    """
    if actor.source == "api" or not actor.subject.startswith(PERSON):
        return ONLY_PEOPLE
    roles = _roles_in(actor, row.tenant_id)
    if not roles:
        return NO_ROLE
    held = [roles[role] for role in ("approver", "reconciler") if role in roles]
    if not held:
        return NOT_RECONCILER
    if isinstance(row, EffectRecord):
        return Permit() if any(one.covers(row.tool, row.target) for one in held) else OUT_OF_REACH
    return Permit() if not all(one.is_limited for one in held) else NOT_WHOLE


def may_answer(actor: Actor, question: Question) -> Answer:
    """To answer an agent's question: who asked for its session, or an approver; nobody but people."""
    if actor.source == "api" or not actor.subject.startswith(PERSON):
        return ONLY_PEOPLE_ANSWER
    roles = _roles_in(actor, question.tenant_id)
    if not roles:
        return NO_ROLE
    return Permit() if "approver" in roles or question.requester == actor.subject else NOT_ASKED


def may_make_grant(actor: Actor, grant: Grant) -> Answer:
    """To let calls pass in advance: an approver who may decide every call of that tool. Four eyes come at its use.

    Where the tenant asks for a fresh sign-in before what can't be undone, it asks here too, except at a shell.
    """
    if actor.source == "api" or not actor.subject.startswith(PERSON):
        return ONLY_PEOPLE
    roles = _roles_in(actor, grant.tenant_id)
    if not roles:
        return NO_ROLE
    held = roles.get("approver")
    if held is None:
        return NOT_GRANTER
    if not held.covers(grant.tool, ""):
        return TARGETS_LIMITED
    if made_token_for(grant.tenant_id, actor.subject):
        return TOKEN_MAKER
    stale = actor.source != "shell" and wants_fresh_sign_in(grant.tenant_id, actor.authenticated_at)
    return STEP_UP if stale else Permit()


def may_revoke_grant(actor: Actor, grant: Grant) -> Answer:
    """To take a grant back, which only narrows: any approver, any administrator."""
    if actor.source == "api" or not actor.subject.startswith(PERSON):
        return ONLY_PEOPLE
    roles = _roles_in(actor, grant.tenant_id)
    if not roles:
        return NO_ROLE
    return Permit() if roles.keys() & {"approver", "administrator"} else NOT_REVOKER


def may_pause_dispatch(actor: Actor, tenant: Tenant | None) -> Answer:
    """The kill switch: an administrator in their tenant; for the whole deployment only who operates it, at a shell."""
    if actor.source == "shell":
        return Permit()
    if actor.source != "web" or tenant is None or not actor.subject.startswith(PERSON):
        return ONLY_OPERATORS
    return Permit() if "administrator" in _roles_in(actor, tenant.id) else ONLY_OPERATORS


def may_limit(actor: Actor, tenant: Tenant) -> Answer:
    """To say how much a tenant may have at once: its administrators, and who operates the deployment, at a shell."""
    if actor.source == "shell":
        return Permit()
    if actor.source != "web" or not actor.subject.startswith(PERSON):
        return NOT_LIMITER
    return Permit() if "administrator" in _roles_in(actor, tenant.id) else NOT_LIMITER


def may_quarantine(actor: Actor, tenant: Tenant | None) -> Answer:
    """To close dispatch after a restored backup, and to open it: who operates the deployment, at a shell."""
    return Permit() if actor.source == "shell" else ONLY_SHELL


def _roles_in(actor: Actor, tenant_id: UUID) -> dict[str, Membership]:
    """The roles held now, if this tenant is the one that the actor works in."""
    return held_in(tenant_id, actor.subject) if actor.tenant == tenant_id else {}


QUESTIONS: dict[str, Callable[[Actor, Any], Answer]] = {
    "view": may_take_part,
    "start_session": may_start,
    "interrupt_session": may_interrupt,
    "resume_session": may_interrupt,
    "continue_session": may_ask_further,
    "record_proposal": may_ask_further,
    "decide": may_decide,
    "revoke": may_revoke,
    "claim": may_revoke,
    "reconcile": may_settle,
    "abandon_session": may_settle,
    "recover_session": may_settle,
    "answer": may_answer,
    "pause_dispatch": may_pause_dispatch,
    "quarantine": may_quarantine,
    "limit_tenant": may_limit,
    "make_grant": may_make_grant,
    "revoke_grant": may_revoke_grant,
    "audit": may_audit,
    "grant_role": may_manage_people,
    "revoke_role": may_manage_people,
    "create_token": may_manage_people,
    "revoke_token": may_manage_people,
    "manage_people": may_manage_people,
    "manage_account": may_manage_account,
}

# What a token needs for each thing that it can do at all.
SCOPE_OF = {
    "view": "read",
    "start_session": "run",
    "continue_session": "run",
    "interrupt_session": "run",
    "resume_session": "run",
    "record_proposal": "propose",
}
