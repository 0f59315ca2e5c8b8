from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from cayu_runtime.errors import NotFound
from cayu_runtime.selectors.attachment import find_attachment

from ..actors import Member
from .pages import members_only


@require_safe
@members_only
def attachment(request: HttpRequest, member: Member, attachment_id: UUID) -> HttpResponse:
    """The body of an attachment as a file to save. A tool wrote it, so no browser is told what it might be."""
    found = find_attachment(member.tenant, attachment_id)
    if found is None:
        raise NotFound("There is no such attachment.")
    response = HttpResponse(found.body, content_type="application/octet-stream")
    response.headers["Content-Disposition"] = content_disposition_header(True, found.name)
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
