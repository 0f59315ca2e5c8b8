"""Where a page of a list begins: an opaque text that holds the last row's place. No page is found by counting."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from uuid import UUID

from ..errors import InvalidRequest

MAX_LENGTH = 400
REFUSED = "This cursor is none of ours. Send `next` of the page before, or no cursor."


def cursor_after(moment: datetime, row: UUID) -> str:
    """The cursor of the page behind a row of a list that is ordered by (moment, id)."""
    return cursor_behind(f"{moment.isoformat()}~{row.hex}")


def place_of(cursor: str) -> tuple[datetime, UUID] | None:
    """The (moment, id) that a cursor names; None for no cursor. InvalidRequest for one that this API did not give."""
    if not cursor:
        return None
    moment, _, row = text_of(cursor).partition("~")
    try:
        at, key = datetime.fromisoformat(moment), UUID(hex=row)
    except ValueError:
        raise InvalidRequest(REFUSED) from None
    if at.utcoffset() is None or not 1 < at.year < 9999:
        raise InvalidRequest(REFUSED)
    return at, key


def cursor_behind(text: str) -> str:
    """The cursor of the page behind a row of a list that is ordered by one ASCII text."""
    return urlsafe_b64encode(text.encode("ascii")).decode().rstrip("=")


def text_of(cursor: str) -> str:
    """The text that a cursor names, "" for no cursor. InvalidRequest for one that this API did not give."""
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode("ascii")
    except (ValueError, binascii.Error):
        raise InvalidRequest(REFUSED) from None
    if not text.isprintable():
        raise InvalidRequest(REFUSED)
    return text
