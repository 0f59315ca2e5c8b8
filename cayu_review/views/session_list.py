from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from cayu_runtime import registry
from cayu_runtime.core.states import INTERRUPTIONS, SESSION
from cayu_runtime.selectors import session as sessions
from cayu_runtime.selectors.session import SessionFilter

from ..actors import Member
from ..wording import INTERRUPTION_WORDS, SESSION_WORDS, session_words, tried_again_at
from .pages import cursor_after, cursor_of, members_only, page

STATUS = {**{name: words.text for name, words in SESSION_WORDS.items()}, "interrupted": "Waits or stopped"}


@dataclass(frozen=True, slots=True)
class Asked:
    """The filters of an address. What is empty does not narrow; the address is what is shared."""

    status: str
    interruption: str
    agent: str
    mine: str
    q: str

    @property
    def query(self) -> dict[str, str]:
        named = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in named.items() if value}


@require_safe
@members_only
def session_list(request: HttpRequest, member: Member) -> HttpResponse:
    """Sessions, newest first, narrowed by what the address says."""
    asked = _asked(request)
    before = cursor_of(request)
    requester = member.actor.subject if asked.mine else ""
    only = SessionFilter(asked.status, asked.interruption, asked.agent, requester, asked.q)
    found = sessions.newest_sessions(member.tenant, before=before, only=only)
    now = timezone.now()
    waiting = sessions.waiting_for(member.tenant, member.actor.subject, found, now)
    mine = waiting if "approver" in member.actor.roles else set()
    full = len(found) == sessions.PAGE
    context = {
        "rows": [(row, session_words(row, now), row.id in mine, tried_again_at(row, now)) for row in found],
        "asked": asked,
        "narrowed": bool(asked.query),
        "statuses": STATUS,
        "interruptions": {name: INTERRUPTION_WORDS[name].text for name in INTERRUPTIONS},
        "agents": sorted({*registry.agents(), *([asked.agent] if asked.agent else [])}),
        "any": bool(found) or (bool(asked.query) and sessions.any_session(member.tenant)),
        "first_page": before is None,
        "first": urlencode(asked.query),
        "next": cursor_after(found[-1].created_at, found[-1].id, asked.query) if full else "",
    }
    return page(request, member, "review/sessions.html", context)


def _asked(request: HttpRequest) -> Asked:
    """The filters as they were asked for; 400 for a status or an interruption that does not exist."""
    given = {name: request.GET.get(name, "").strip() for name in Asked.__slots__}
    if any("\0" in value or len(value) > 100 for value in given.values()):
        raise BadRequest("A filter of this list cannot be used. Begin with the list without filters.")
    asked = Asked(**given)
    if asked.status and asked.status not in SESSION.names:
        raise BadRequest(f"There is no status {asked.status!r}.")
    if asked.interruption and asked.interruption not in INTERRUPTIONS:
        raise BadRequest(f"There is no interruption {asked.interruption!r}.")
    return asked
