from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from cayu_runtime.errors import NotFound
from cayu_runtime.selectors.effect import UNCERTAIN, attempts_of, find_effect

from ..actors import Member
from ..exact import rows
from ..wording import effect_words
from .pages import members_only, page


@require_safe
@members_only
def effect(request: HttpRequest, member: Member, effect_id: UUID) -> HttpResponse:
    """What is known about one effect, and what was tried. Read-only: only evidence settles it."""
    found = find_effect(member.tenant, effect_id)
    if found is None:
        raise NotFound("There is no such effect.")
    attempts = attempts_of(found)
    context = {
        "effect": found,
        "words": effect_words(found),
        "uncertain": found.state in UNCERTAIN,
        "arguments": rows(found.call.arguments),
        "attempts": [(attempt, rows(attempt.evidence) if attempt.evidence else ()) for attempt in attempts],
        "receipt": rows(found.receipt) if found.receipt else (),
    }
    return page(request, member, "review/effect.html", context)
