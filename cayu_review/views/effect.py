from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from cayu_runtime import authority
from cayu_runtime.contracts.reconciler import MAX_RECEIPT
from cayu_runtime.errors import Conflict, InvalidRequest, NotFound, NotPermitted
from cayu_runtime.models import Attempt, EffectRecord
from cayu_runtime.selectors.approval import waiting_of
from cayu_runtime.selectors.effect import UNCERTAIN, attempts_of, find_effect
from cayu_runtime.services.effect import Seen, look_up_effect, supply_receipt, verify_effect, ways_to_settle
from cayu_runtime.services.session import abandon_session

from ..actors import Member
from ..exact import rows
from ..selectors.membership import names_of
from ..wording import effect_words, finding_words
from .pages import deed, draft_of, members_only, page


def _found(member: Member, effect_id: UUID) -> EffectRecord:
    found = find_effect(member.tenant, effect_id)
    if found is None:
        raise NotFound("There is no such effect.")
    return found


@require_safe
@members_only
def effect(request: HttpRequest, member: Member, effect_id: UUID) -> HttpResponse:
    """What is known about one effect, what was tried, and what may settle it."""
    return _show(request, member, _found(member, effect_id))


@deed("effect", _found)
def look_up(request: HttpRequest, member: Member, effect_id: UUID) -> HttpResponse:
    """Ask the receiving system, and show its raw verdict."""
    return _settle(
        request,
        member,
        effect_id,
        "look_up",
        lambda seen: look_up_effect(member.tenant, member.actor, effect_id, seen, reason=draft_of(request)),
    )


@deed("effect", _found)
def receipt(request: HttpRequest, member: Member, effect_id: UUID) -> HttpResponse:
    """Have the adapter judge a receipt: JSON in the field, or a file of it."""
    return _settle(
        request,
        member,
        effect_id,
        "receipt",
        lambda seen: supply_receipt(
            member.tenant, member.actor, effect_id, seen, _receipt(request), reason=draft_of(request)
        ),
    )


@deed("effect", _found)
def verify(request: HttpRequest, member: Member, effect_id: UUID) -> HttpResponse:
    """Have the verifier look at what a receipt says was done."""
    try:
        verify_effect(member.tenant, member.actor, effect_id)
    except Conflict as conflict:
        return _show(request, member, _found(member, effect_id), problem=conflict.message, status=409)
    return redirect("effect", effect_id)


@deed("effect", _found)
def abandon(request: HttpRequest, member: Member, effect_id: UUID) -> HttpResponse:
    """Give the whole session up; the effect stays uncertain until evidence comes."""
    found = _found(member, effect_id)
    try:
        abandon_session(member.tenant, member.actor, found.session.session_id, reason=draft_of(request))
    except (InvalidRequest, Conflict) as problem:
        status = 400 if isinstance(problem, InvalidRequest) else 409
        return _show(request, member, found, problem=problem.message, sent="abandon", status=status)
    messages.info(request, "The session was given up. Whether this happened is still not known.")
    return redirect("session", found.session.session_id)


def _settle(request: HttpRequest, member: Member, effect_id: UUID, sent: str, ask: Any) -> HttpResponse:
    try:
        outcome = ask(_seen(request))
    except (InvalidRequest, NotPermitted, Conflict) as problem:
        status = 400 if isinstance(problem, InvalidRequest) else 403 if isinstance(problem, NotPermitted) else 409
        found = _found(member, effect_id)
        return _show(request, member, found, problem=problem.message, sent=sent, status=status)
    said = finding_words(outcome.finding)
    messages.info(request, f"{said} {outcome.message}".strip() if not outcome.replay else f"Asked before: {said}")
    return redirect("effect", effect_id)


def _show(
    request: HttpRequest,
    member: Member,
    found: EffectRecord,
    *,
    problem: str = "",
    sent: str = "",
    status: int = 200,
) -> HttpResponse:
    """`sent` is the form that was refused: it is shown open, with all that was typed into it."""
    attempts = attempts_of(found)
    names = names_of({attempt.actor for attempt in attempts})
    ways = ways_to_settle(found)
    context = {
        "effect": found,
        "words": effect_words(found),
        "uncertain": found.state in UNCERTAIN,
        "open_approval": waiting_of(found.call) if found.state in ("proposed", "safe_to_retry") else None,
        "looks_up": ways.looks_up,
        "takes_receipts": ways.takes_receipts,
        "refusal": _refusal(member, found),
        "arguments": rows(found.call.arguments),
        "timeline": _timeline(found, [_tried(one, names.get(one.actor, one.actor)) for one in attempts]),
        "receipt": rows(found.receipt) if found.receipt else (),
        "verification": rows(found.verification_evidence) if found.verification_evidence else (),
        "problem": problem,
        "sent": sent,
        "draft": draft_of(request) if sent else "",
        "typed_receipt": _typed_receipt(request) if sent == "receipt" else "",
        "max_receipt": MAX_RECEIPT // 1024,
    }
    return page(request, member, "review/effect.html", context, status)


def _tried(attempt: Attempt, by: str) -> dict[str, Any]:
    evidence = rows(attempt.evidence) if attempt.evidence else ()
    return {"at": attempt.admitted_at, "attempt": attempt, "by": by, "evidence": evidence}


def _timeline(found: EffectRecord, tried: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was tried and what became of it, in the order in which it happened."""
    told = list(tried)
    if found.quarantined_at:
        told.append({"at": found.quarantined_at, "says": "The database was restored from a backup"})
    if found.unknown_since:
        told.append({"at": found.unknown_since, "says": "Outcome unknown since then"})
    if found.closed_at:
        told.append({"at": found.closed_at, "says": effect_words(found).text})
    return sorted(told, key=lambda entry: entry["at"])


def _refusal(member: Member, found: EffectRecord) -> str:
    """Why this person may not settle it; empty if they may."""
    try:
        authority.require(member.actor, "reconcile", found)
    except NotPermitted as refusal:
        return refusal.message
    return ""


def _seen(request: HttpRequest) -> Seen:
    revision, dispatch = request.POST.get("revision", ""), request.POST.get("dispatch", "")
    if not revision.isascii() or not revision.isdecimal() or len(revision) > 9:
        raise InvalidRequest("The form came without the revision of the effect. Read the page again, then ask.")
    try:
        return Seen(int(revision), UUID(dispatch) if dispatch else None)
    except ValueError:
        raise InvalidRequest("The form came without the effect's dispatch. Read the page again, then ask.") from None


def _typed_receipt(request: HttpRequest) -> str:
    text = request.POST.get("receipt", "")
    return text if len(text) <= MAX_RECEIPT else ""


def _receipt(request: HttpRequest) -> str:
    upload = request.FILES.get("file")
    if upload is not None:
        raw = upload.read(MAX_RECEIPT + 1)
        text = raw.decode("utf-8", "replace")
    else:
        text = request.POST.get("receipt", "")
    if len(text.encode("utf-8", "replace")) > MAX_RECEIPT:
        raise InvalidRequest(f"A receipt has at most {MAX_RECEIPT // 1024} KiB.")
    return text
