"""Template tags: texts without hidden characters, exact values, lengths of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ..exact import Token, rows, visible
from ..exact import tokens as split_tokens
from ..moments import ago as ago_words
from ..moments import left as left_words
from ..moments import near_from
from ..moments import until as until_words
from ..wording import ATTEMPT_NAMES, EFFECT_MEANING, EFFECT_NAMES, action_of, action_within, effect_words

register = template.Library()

register.filter("effect_words", effect_words)
register.filter("visible", visible)
register.filter("exact_rows", rows)
register.simple_tag(action_of)
register.simple_tag(action_within)

AS_IT_IS = "{}"
ESCAPE = '<span class="escape">{}</span>'
BREAK = '<span class="escape">{}</span>\n'
MARKUP = {"plain": AS_IT_IS, "escape": ESCAPE, "break": BREAK}


@register.filter
def tokens(value: Iterable[Token]) -> SafeString:
    """Tokens as markup: escapes are marked, so that a written-out one differs from the same letters typed."""
    return format_html_join("", "{}", ((format_html(MARKUP[token.kind], token.text),) for token in value))


@register.filter
def shortened(value: Iterable[Token]) -> SafeString:
    """The same, but a long value only as "(long, above)": a part of it would look like the whole."""
    pieces = tuple(value)
    long = sum(len(piece.text) for piece in pieces) > 60
    return format_html("<em>{}</em>", "(long, above)") if long else tokens(pieces)


@register.filter
def exact_text(text: str) -> SafeString:
    """A text of several lines as it is, what cannot be seen written out; line breaks only break the line."""
    return format_html_join("\n", "{}", ((tokens(split_tokens(line)),) for line in text.split("\n")))


@register.filter
def attempt_name(kind: str) -> str:
    return ATTEMPT_NAMES[kind]


@register.filter
def hex(digest: bytes) -> str:
    return bytes(digest).hex()


@register.filter
def upto99(count: int) -> str:
    """A count that is exact below 100."""
    return str(count) if count < 100 else "99+"


@register.filter
def effect_name(effect_class: str) -> str:
    return EFFECT_NAMES[effect_class]


@register.filter
def effect_meaning(effect_class: str) -> str:
    return EFFECT_MEANING[effect_class]


@register.filter
def utc(moment: datetime) -> str:
    """The exact moment: "30 Nov 2026, 14:02:11 UTC"."""
    return f"{moment.astimezone(UTC):%d %b %Y, %H:%M:%S} UTC".lstrip("0")


@register.filter
def stamp(moment: datetime) -> SafeString:
    return format_html('<time datetime="{}">{}</time>', iso(moment), utc(moment))


@register.simple_tag
def hour(moment: datetime) -> SafeString:
    """A moment of the next minutes: "14:02 UTC", with the exact one behind it."""
    said = f"{moment.astimezone(UTC):%H:%M} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', iso(moment), utc(moment), said)


@register.filter
def of(found: Mapping[Any, Any], key: Any) -> Any:
    """What stands under a key; None if nothing does."""
    return found.get(key)


@register.simple_tag(takes_context=True)
def ago(context: template.Context, moment: datetime) -> SafeString:
    """How long ago, with the exact moment behind it."""
    words = ago_words(moment, context["now"])
    return format_html('<time datetime="{}" title="{}" data-ago>{}</time>', iso(moment), utc(moment), words)


@register.simple_tag(takes_context=True)
def until(context: template.Context, moment: datetime) -> SafeString:
    """In how long something is to happen that is no deadline, with the exact moment behind it."""
    words = until_words(moment, context["now"])
    return format_html('<time datetime="{}" title="{}" data-until>{}</time>', iso(moment), utc(moment), words)


@register.simple_tag(takes_context=True)
def left(context: template.Context, start: datetime, deadline: datetime) -> SafeString:
    """How much time is left, marked when the end is near."""
    now = context["now"]
    near = near_from(start, deadline)
    state = "over" if deadline <= now else "near" if near <= now else "ample"
    return format_html(
        '<time class="left {}" datetime="{}" title="{}" data-left data-near="{}">{}</time>',
        state,
        iso(deadline),
        utc(deadline),
        iso(near),
        left_words(deadline, now),
    )


@register.filter
def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
