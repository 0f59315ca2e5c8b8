from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from cayu_runtime import authority
from cayu_runtime.errors import CayuError, Conflict, InvalidRequest, NotFound, NotPermitted
from cayu_runtime.models import Approval
from cayu_runtime.selectors.approval import find_approval, next_waiting, revocation_of
from cayu_runtime.selectors.effect import UNCERTAIN, unsettled_equals
from cayu_runtime.services.approval import Decided, Edited, decide_approval, preview_edit, revoke_approval

from ..actors import Member
from ..agreeing import Agreement, agreement_of
from ..compare import changes, differing_fields, pairs
from ..drafts import kept_fields
from ..exact import brief, editable_text, rows
from ..selectors.claim import claim_on, looked_at_by_others
from ..services.claim import MINUTES, claim_approval, release_claim
from ..wording import approval_words, effect_words
from .pages import deed, draft_of, members_only, page
from .step_up import STEP_UP, sign_in_again

SAID = {
    "approve": "Approved. Not dispatched yet.",
    "change": "Approved as you changed it. Not dispatched yet.",
    "changed": "Changed. Somebody else must approve it as it is now.",
    "counted": "Your agreement is recorded. Others must agree too.",
    "deny": "Denied. Nothing was sent.",
}
STATUS = ((InvalidRequest, 400), (NotPermitted, 403), (Conflict, 409))
HELD = (
    "An equal action is uncertain: nobody knows yet whether it happened. This one can be approved once that is settled."
)
CHANGED = (
    "You changed the arguments, and this button approves them as they were asked for. "
    "Approve with your changes, or put the arguments back."
)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a person wrote: the reason, and the arguments as JSON text if they differ from what was asked for."""

    reason: str = ""
    arguments: str | None = None
    condition: str = ""


def _found(member: Member, approval_id: UUID) -> Approval:
    found = find_approval(member.tenant, approval_id)
    if found is None:
        raise NotFound("There is no such approval.")
    return found


@require_safe
@members_only
def approval(request: HttpRequest, member: Member, approval_id: UUID) -> HttpResponse:
    kept = kept_fields(request)
    draft = Draft("", kept.get("arguments"), kept.get("condition", ""))
    return _show(request, member, _found(member, approval_id), draft=draft)


@deed("approval", _found)
def confirm(request: HttpRequest, member: Member, approval_id: UUID) -> HttpResponse:
    """The second step of approving an EXTERNAL effect: asks again, and keeps what was written.

    With changed arguments it says what they come to. `back` leads to the form as it was filled in.
    """
    found = _found(member, approval_id)
    draft = _draft(request, found)
    if "back" in request.POST:
        return _show(request, member, found, draft=draft)
    try:
        if request.POST.get("decision") != "change":
            _refuse_unsaid_change(draft)
            return _show(request, member, found, draft=draft, confirming=True)
        edited = preview_edit(
            member.tenant,
            member.actor,
            found.pk,
            version=_version(request),
            digest=request.POST.get("digest", ""),
            arguments=request.POST.get("arguments", ""),
        )
    except CayuError as problem:
        return _unrecorded(request, member, found, problem, draft)
    return _show(request, member, found, draft=draft, confirming=True, edited=edited)


@deed("approval", _found)
def decide(request: HttpRequest, member: Member, approval_id: UUID) -> HttpResponse:
    """Record the decision on exactly what the page showed, then open what waits next."""
    found = _found(member, approval_id)
    draft, decision = _draft(request, found), request.POST.get("decision", "")
    try:
        if decision == "approve":
            _refuse_unsaid_change(draft)
        decided = decide_approval(
            member.tenant,
            member.actor,
            found.pk,
            verdict="approve" if decision == "change" else decision,
            version=_version(request),
            digest=request.POST.get("digest", ""),
            reason=draft.reason,
            arguments=request.POST.get("arguments", "") if decision == "change" else None,
            condition=draft.condition if decision == "approve" else "",
        )
    except CayuError as problem:
        return _unrecorded(request, member, found, problem, draft)
    _say(request, decided, decision)
    return _open_next(member, decided.approval)


@deed("approval", _found)
def revoke(request: HttpRequest, member: Member, approval_id: UUID) -> HttpResponse:
    """Take an approval back before it is dispatched."""
    found, draft = _found(member, approval_id), Draft(draft_of(request))
    try:
        revoke_approval(
            member.tenant,
            member.actor,
            found.pk,
            version=_version(request),
            digest=request.POST.get("digest", ""),
            reason=draft.reason,
        )
    except CayuError as problem:
        return _unrecorded(request, member, found, problem, draft, taking_back=True)
    messages.info(request, "Taken back. Nothing was sent.")
    return redirect("approval", found.pk)


@deed("approval", _found)
def claim(request: HttpRequest, member: Member, approval_id: UUID) -> HttpResponse:
    """Say that one is looking at it. What was written is kept."""
    found = _found(member, approval_id)
    draft = _draft(request, found)
    try:
        claim_approval(member.tenant, member.actor, found.pk)
    except CayuError as problem:
        return _unrecorded(request, member, found, problem, draft, undone="You are not marked as looking at this")
    return _as_it_was(request, member, found, draft)


@deed("approval", _found)
def release(request: HttpRequest, member: Member, approval_id: UUID) -> HttpResponse:
    """Give it back. What was written is kept."""
    found = _found(member, approval_id)
    release_claim(member.tenant, member.actor, found.pk)
    return _as_it_was(request, member, found, _draft(request, found))


def _as_it_was(request: HttpRequest, member: Member, found: Approval, draft: Draft) -> HttpResponse:
    return redirect("approval", found.pk) if draft == Draft() else _show(request, member, found, draft=draft)


def _draft(request: HttpRequest, found: Approval) -> Draft:
    sent = request.POST.get("arguments")
    text = sent.replace("\r\n", "\n") if sent is not None else None
    unchanged = text is None or text == editable_text(found.call.arguments)
    return Draft(draft_of(request), None if unchanged else text, request.POST.get("condition", "").strip())


def _refuse_unsaid_change(draft: Draft) -> None:
    if draft.arguments is not None:
        raise InvalidRequest(CHANGED)


def _version(request: HttpRequest) -> int:
    text = request.POST.get("version", "")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidRequest("The form came without the version of the request. Read the page again, then decide.")
    return int(text)


def _unrecorded(
    request: HttpRequest,
    member: Member,
    found: Approval,
    problem: CayuError,
    draft: Draft,
    *,
    taking_back: bool = False,
    undone: str = "Your decision was not recorded",
) -> HttpResponse:
    """The page as it is by now, why nothing was recorded, and what the person wrote. Or the way to sign in again."""
    if problem.code == STEP_UP:
        back = reverse("approval", args=[found.pk])
        written = {"arguments": draft.arguments or "", "condition": draft.condition}
        return sign_in_again(request, member, back, draft.reason, written)
    status = next((code for kind, code in STATUS if isinstance(problem, kind)), 400)
    now = _found(member, found.pk)
    undone = "Nothing was taken back" if taking_back else undone
    return _show(
        request, member, now, draft=draft, problem=problem, status=status, taking_back=taking_back, undone=undone
    )


def _show(
    request: HttpRequest,
    member: Member,
    found: Approval,
    *,
    status: int = 200,
    problem: CayuError | None = None,
    draft: Draft = Draft(),
    confirming: bool = False,
    edited: Edited | None = None,
    taking_back: bool = False,
    undone: str = "",
) -> HttpResponse:
    """The approval as it is now. Which buttons exist is asked of the authority that will judge the decision."""
    now = timezone.now()
    call = found.call
    decidable = found.state == "pending" and found.expires_at > now
    refused = _refused(member, "decide", found)
    asks_again = refused is not None and refused.code == STEP_UP
    refusal = refused.message if refused is not None and not asks_again else ""
    beside, equals = _beside_proposal(found), _equals(found)
    stopped = beside["blocked"] and f"{beside['blocked']} Deny it, and let the agent propose anew."
    agreement = agreement_of(found) if decidable else None
    stopped = stopped or (HELD if equals["held"] else "") or _agreed_already(member, agreement)
    open_to_person = decidable and not refusal and not stopped
    context: dict[str, Any] = {
        "approval": found,
        "arguments": rows(call.arguments),
        "digest": found.intent_digest.hex(),
        "version": found.version,
        **beside,
        **equals,
        "stopped": stopped,
        "decidable": decidable,
        "refusal": refusal,
        "asks_again": asks_again,
        "confirms": found.effect_class == "external",
        "confirming": confirming and open_to_person,
        "editable": found.editable and call.proposal is None and open_to_person,
        **_written(draft),
        "taking_back": taking_back,
        "undone": undone,
        "claim": claim_on(found),
        "claimable": MINUTES if not refusal and not _agreed_already(member, agreement) else 0,
        "problem": problem.message if isinstance(problem, InvalidRequest | NotPermitted) else "",
        "conflict": problem if isinstance(problem, Conflict) else None,
        "agreement": agreement,
        "changes_only": found.four_eyes,
        "words": approval_words(found, now),
        "brief": brief(call.arguments, found.target),
    }
    if context["editable"]:
        context["arguments_text"] = editable_text(call.arguments) if draft.arguments is None else draft.arguments
    if edited is not None:
        context |= {
            "edited": edited,
            "changes": changes(call.arguments, edited.arguments),
            "arguments": rows(edited.arguments),
            "digest": edited.intent_digest.hex(),
            "version": found.version + 1,
        }
    if call.proposed_arguments is not None:
        context["versions"] = pairs(call.proposed_arguments, call.arguments)
    if found.state == "approved":
        unable = _refused(member, "revoke", found)
        context["revoke_refusal"] = unable.message if unable is not None else ""
    if found.state == "revoked":
        context["revocation"] = revocation_of(found)
    return page(request, member, "review/approval.html", context, status)


def _written(draft: Draft) -> dict[str, Any]:
    return {
        "draft": draft.reason,
        "draft_arguments": draft.arguments,
        "draft_condition": draft.condition,
        "changed": draft.arguments is not None,
    }


def _beside_proposal(found: Approval) -> dict[str, Any]:
    """A reviewed call beside its proposal, key by key; `blocked` says why it can't be approved as what was reviewed."""
    call, proposal = found.call, found.call.proposal
    if proposal is None:
        return {"proposal": None, "blocked": ""}
    differing = differing_fields(proposal.fields, call.arguments)
    blocked = ""
    if differing:
        blocked = f"The call differs from its proposal in: {', '.join(differing)}. It cannot be approved."
    elif found.state == "pending" and proposal.state != "open" and proposal.used_by_id != call.pk:
        blocked = f"Its proposal is {proposal.state}. It cannot be approved."
    return {"proposal": proposal, "pairs": pairs(proposal.fields, call.arguments), "blocked": blocked}


def _equals(found: Approval) -> dict[str, Any]:
    """Equal actions of which the approver must know: `held` one that is uncertain, `given_up` one that stayed so
    for good, `settled` the one that held this and its outcome.
    """
    none: dict[str, Any] = {"held": None, "given_up": None, "settled": None}
    if found.state != "pending" or found.effect_class != "external":
        return none
    unsettled = unsettled_equals(found.call)
    held = next((effect for effect in unsettled if effect.abandoned_at is None), None)
    given_up = next((effect for effect in reversed(unsettled) if effect.abandoned_at is not None), None)
    first = found.call.held_by
    settled = first if first is not None and first.state not in UNCERTAIN else None
    return {"held": held, "given_up": given_up, "settled": settled, "outcome": settled and effect_words(settled)}


def _refused(member: Member, action: str, found: Approval) -> NotPermitted | None:
    """Why this person may not do it; None if they may."""
    try:
        authority.require(member.actor, action, found)
    except NotPermitted as refusal:
        return refusal
    return None


def _agreed_already(member: Member, agreement: Agreement | None) -> str:
    if agreement is None or member.actor.subject not in {said.actor for said in agreement.agreed}:
        return ""
    return "You have agreed to this. Others must agree too before it is sent."


def _say(request: HttpRequest, outcome: Decided, decision: str) -> None:
    decided = outcome.approval
    if decided.state == "pending":
        decision = "changed" if outcome.decision.verdict == "edit" else "counted"
    said = f"You had decided this already. By now it is {decided.state}." if outcome.replay else SAID[decision]
    text = format_html(
        '{} <a href="{}">See what comes of it</a>', said, reverse("session", args=[decided.session.session_id])
    )
    if decided.state == "approved":
        text = format_html('{}, or <a href="{}">take it back</a>', text, reverse("approval", args=[decided.pk]))
    messages.info(request, text)


def _open_next(member: Member, decided: Approval) -> HttpResponse:
    after = (decided.expires_at, decided.id)
    others = looked_at_by_others(member.tenant, member.actor.subject)
    waiting = next_waiting(member.tenant, member.actor.subject, after, timezone.now(), others)
    return redirect("approval", waiting) if waiting else redirect("queue")
