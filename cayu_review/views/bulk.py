from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from cayu_runtime.errors import InvalidRequest
from cayu_runtime.models import Approval
from cayu_runtime.selectors.approval import find_approvals
from cayu_runtime.services.approval import MAX_ITEMS, Answered, Item, decide_many, obstacle_to, verb_of

from ..actors import Member
from ..compare import differing_fields
from ..exact import Row, rows
from ..wording import Words, approval_words
from .pages import draft_of, members_only, page

ANSWERS = {
    "replay": Words("You had decided it so before", "still"),
    "already_decided": Words("Decided by somebody else", "bad"),
    "approval_expired": Words("Expired", "bad"),
    "stale_version": Words("Changed", "bad"),
    "digest_mismatch": Words("Changed", "bad"),
    "own_request": Words("Your own request", "bad"),
    "not_permitted": Words("Not permitted", "bad"),
    "step_up_required": Words("Needs a fresh sign-in", "bad"),
    "not_together": Words("To be decided for itself", "bad"),
    "not_found": Words("Not found", "bad"),
}
DONE = {"approve": Words("Approved", "wait"), "deny": Words("Denied", "still")}
LEFT_ALONE = Words("Left alone", "bad")


@dataclass(frozen=True, slots=True)
class Chosen:
    """One request of the set with all that would be decided about it, or why it is not in the set."""

    approval: Approval
    arguments: tuple[Row, ...] = ()
    why_not: str = ""


@require_http_methods(["GET", "HEAD", "POST"])
@members_only
def together(request: HttpRequest, member: Member) -> HttpResponse:
    """Several requests of one verb on one page, in full; by POST all of them decided, with an answer for each."""
    if request.method != "POST":
        return _show(request, member, _ids(request.GET.getlist("item")))
    verdict, reason = request.POST.get("decision", ""), draft_of(request)
    sent = request.POST.getlist("item")
    try:
        items = [_item(text) for text in sent]
        answers = decide_many(member.tenant, member.actor, items, verdict=verdict, reason=reason)
    except InvalidRequest as problem:
        ids = _ids([text.partition("~")[0] for text in sent])
        return _show(request, member, ids, problem=problem.message, draft=reason, status=400)
    return _answered(request, member, answers, verdict, reason)


def _show(
    request: HttpRequest, member: Member, ids: list[UUID], *, problem: str = "", draft: str = "", status: int = 200
) -> HttpResponse:
    found = list(find_approvals(member.tenant, ids[:MAX_ITEMS]).values())
    verb = verb_of(found)
    chosen = [_chosen(member, approval, verb) for approval in found]
    context = {
        "inside": [one for one in chosen if not one.why_not],
        "outside": [one for one in chosen if one.why_not],
        "missing": len(ids) - len(found),
        "verb": verb,
        "problem": problem,
        "draft": draft,
        "items": MAX_ITEMS,
    }
    return page(request, member, "review/together.html", context, status)


def _chosen(member: Member, approval: Approval, verb: str) -> Chosen:
    now = timezone.now()
    obstacle = obstacle_to(member.actor, approval, verb)
    if obstacle is not None:
        return Chosen(approval, why_not=obstacle.message)
    if approval.state != "pending" or approval.expires_at <= now:
        return Chosen(approval, why_not=approval_words(approval, now).text)
    proposal = approval.call.proposal
    if proposal is not None and differing_fields(proposal.fields, approval.call.arguments):
        return Chosen(approval, why_not="It differs from its proposal. Open it to see where.")
    return Chosen(approval, rows(approval.call.arguments))


def _answered(request: HttpRequest, member: Member, answers: list[Answered], verdict: str, reason: str) -> HttpResponse:
    done = sum(answer.done for answer in answers)
    context = {
        "answers": [
            (answer, DONE[verdict] if answer.code == "done" else ANSWERS.get(answer.code, LEFT_ALONE))
            for answer in answers
        ],
        "done": done,
        "left": len(answers) - done,
        "verdict": verdict,
        "draft": reason if done < len(answers) else "",
    }
    return page(request, member, "review/together_done.html", context)


def _ids(texts: list[str]) -> list[UUID]:
    """The ids among these texts, each once; what is none is left out."""
    found: dict[UUID, None] = {}
    for text in texts:
        try:
            found[UUID(text)] = None
        except ValueError:
            continue
    return list(found)


def _item(text: str) -> Item:
    approval, _, seen = text.partition("~")
    version, _, digest = seen.partition("~")
    if not version.isascii() or not version.isdecimal() or len(version) > 9:
        raise InvalidRequest("The form came without the versions of its requests. Read them again, then decide.")
    try:
        return Item(UUID(approval), int(version), digest)
    except ValueError:
        raise InvalidRequest("The form names a request by no id. Choose them again in the queue.") from None
