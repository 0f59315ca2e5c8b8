"""Refusals as problem+json (RFC 9457). `code` is stable; CODES is the one table of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from .. import errors
from ..core.canonical import bounded, storable, storable_key

MEDIA_TYPE = "application/problem+json"
MAX_DETAIL = 2000
NOBODY = "Nobody is signed in. Send 'Authorization: Bearer' with a token, or the cookie of a web session."


@dataclass(frozen=True, slots=True)
class Code:
    status: int
    title: str


CODES = {
    "invalid_request": Code(400, "The request can't be used as it is"),
    "not_authenticated": Code(401, "No valid token and no sign-in"),
    "not_permitted": Code(403, "The authority refused"),
    "own_request": Code(403, "Who asked for it can't decide it"),
    "step_up_required": Code(403, "The tenant asks for a fresh sign-in before this"),
    "csrf_failed": Code(403, "The CSRF token is missing or does not fit"),
    "not_found": Code(404, "There is no such thing in this tenant"),
    "method_not_allowed": Code(405, "This address does not take this method"),
    "conflict": Code(409, "Something else happened first"),
    "already_decided": Code(409, "Another answer stands; `winner` says whose"),
    "stale_version": Code(409, "The content changed since it was read"),
    "digest_mismatch": Code(409, "The digest is not the one on record"),
    "approval_expired": Code(409, "The time to decide is over; nothing ran"),
    "question_expired": Code(409, "The time to answer is over"),
    "proposal_conflict": Code(409, "The action_id stands for something else"),
    "stale_tool": Code(409, "The tool or policy changed since it was asked; it can't be approved"),
    "not_together": Code(409, "These can't be decided together; decide each by itself"),
    "held": Code(409, "An equal action is uncertain; settle `held_by` first"),
    "claimed": Code(409, "Somebody else is looking at it; `claim` says who, and until when"),
    "lost_race": Code(409, "Somebody else moved it in between; read it again"),
    "session_exists": Code(409, "This session_id is taken in the tenant"),
    "not_accepting": Code(409, "The session takes no message now"),
    "not_resumable": Code(409, "The session can't be resumed as it is"),
    "stale_plan": Code(409, "The session is not as the plan says any more; read the plan again"),
    "nothing_to_repair": Code(409, "The plan has no repair; it says what is in the way"),
    "stale_revision": Code(409, "The effect changed since it was read"),
    "effect_conflict": Code(409, "The evidence does not fit this operation"),
    "unfinished": Code(409, "The same request is still being worked on; send it again in a moment"),
    "too_large": Code(413, "The body is too large"),
    "unsupported_media_type": Code(415, "The body must be application/json"),
    "idempotency_conflict": Code(422, "This Idempotency-Key was used for another request"),
    "limit_reached": Code(429, "The tenant has as many of these as it may have at once; try again later"),
    "throttled": Code(429, "Too many requests; wait for Retry-After seconds"),
}


def answer(error: Exception, context: dict[str, Any]) -> Response | None:
    """The answer to what a view raised; None for what is no refusal, which then is a fault of the server."""
    if isinstance(error, errors.CayuError):
        made = problem(error.code, error.message, **error.details)
        if isinstance(error, errors.LimitReached):
            made["Retry-After"] = str(error.retry_after)
        return made
    if isinstance(error, Http404):
        return problem("not_found", "There is no such thing in this tenant.")
    if isinstance(error, (PermissionDenied, exceptions.PermissionDenied)):
        return problem("not_permitted", str(error) or "You may not do this.")
    if not isinstance(error, exceptions.APIException):
        return None
    if isinstance(error, exceptions.ValidationError):
        wrong = [{"field": field, "message": said} for field, said in _fields(error.detail)]
        return problem("invalid_request", _sentence(wrong), errors=wrong)
    if isinstance(error, (exceptions.NotAuthenticated, exceptions.AuthenticationFailed)):
        nobody = isinstance(error, exceptions.NotAuthenticated)
        made = problem("not_authenticated", NOBODY if nobody else str(error.detail))
        made["WWW-Authenticate"] = getattr(error, "auth_header", "Bearer")
        return made
    if isinstance(error, exceptions.Throttled):
        seconds = max(1, int(error.wait or 0) + 1)
        made = problem("throttled", f"Too many requests. Send the next one in {seconds} seconds.")
        made["Retry-After"] = str(seconds)
        return made
    if isinstance(error, exceptions.ParseError):
        return problem("invalid_request", str(error.detail))
    return problem(str(error.get_codes()), str(error.detail))


def problem(code: str, detail: str, **more: Any) -> Response:
    """One refusal. A code that an application's authority made up is a 403 of its own."""
    known = CODES.get(code, Code(403, "The authority refused"))
    body = {
        "type": f"/api/docs/#{code}",
        "title": known.title,
        "status": known.status,
        "detail": _told(detail),
        "code": code,
        **storable(more),
    }
    return Response(body, status=known.status, content_type=MEDIA_TYPE)


def _told(text: str) -> str:
    """What a client sent may stand in it: bounded, and without what JSON can't carry."""
    return bounded(storable_key(text), MAX_DETAIL)


def _fields(detail: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(detail, dict):
        for name, part in detail.items():
            yield from _fields(part, f"{path}.{name}" if path else str(name))
    elif isinstance(detail, list):
        for part in detail:
            yield from _fields(part, path)
    else:
        yield _told(path), _told(str(detail))


def _sentence(wrong: list[dict[str, str]]) -> str:
    first = wrong[0]
    return f"{first['field']}: {first['message']}" if first["field"] else first["message"]
