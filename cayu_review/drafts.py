"""Words that a person was sending when their sign-in had ended: kept through the next sign-in, for one address.

They travel as fields of the sign-in form, so that nothing is stored for somebody who is not signed in. After it they
stand in the person's web session until a form of that address has been taken, or they sign out.
"""

from __future__ import annotations

from django.http import HttpRequest
from django.urls import Resolver404, resolve, reverse
from django.utils.http import url_has_allowed_host_and_scheme

DRAFT = "cayu_draft"
MAX_DRAFT = 32_000


def draft_of(request: HttpRequest) -> str:
    """The words that a person was sending, so that a refusal can give them back."""
    return request.POST.get("reason") or request.POST.get("text") or request.POST.get("answer") or ""


def keep_draft(request: HttpRequest, address: str, text: str, **fields: str) -> None:
    """At sign-in: the page at this address begins with these words, and with these in other fields of its form."""
    kept = {name: value[:MAX_DRAFT] for name, value in fields.items() if value.strip()}
    if text.strip() or kept:
        request.session[DRAFT] = {"address": address, "text": text[:MAX_DRAFT], "fields": kept}


def kept_draft(request: HttpRequest) -> str:
    """The words that were kept for the page of this request, if any."""
    kept = request.session.get(DRAFT)
    return str(kept["text"]) if kept and kept["address"] == request.path else ""


def kept_fields(request: HttpRequest) -> dict[str, str]:
    """What was kept of other fields for the page of this request, as it was typed, by name."""
    kept = request.session.get(DRAFT)
    return dict(kept.get("fields", {})) if kept and kept["address"] == request.path else {}


def own_path(text: str) -> str:
    """An address to go on to, if it is a path of this site; else empty."""
    return text if text.startswith("/") and url_has_allowed_host_and_scheme(text, None) else ""


def drop_draft(request: HttpRequest) -> None:
    """A form of the page that the words were kept for has been taken."""
    kept = request.session.get(DRAFT)
    if kept and kept["address"] == page_of_form(request):
        del request.session[DRAFT]


def page_of_form(request: HttpRequest) -> str:
    """The page that shows the form which was sent here: "/approvals/7/" for "/approvals/7/decide/"."""
    match = request.resolver_match
    if match is None or not match.kwargs:
        return request.path if match is not None and match.url_name == "start" else reverse("queue")
    above = request.path.rstrip("/").rpartition("/")[0] + "/"
    try:
        return above if resolve(above).kwargs == match.kwargs else request.path
    except Resolver404:
        return request.path
