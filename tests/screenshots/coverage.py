"""Which addresses of the site have a picture: asked of the URL conf, so that a new page without one is found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from .shots import NO_PICTURE, SHOTS


def names(resolver: Any = None, prefix: str = "") -> Iterator[str]:
    """The name of every address, with its namespace; an address without a name by its pattern."""
    for entry in (resolver or get_resolver()).url_patterns:
        if isinstance(entry, URLResolver):
            yield from names(entry, f"{prefix}{entry.namespace}:" if entry.namespace else prefix)
        elif isinstance(entry, URLPattern):
            yield f"{prefix}{entry.name or entry.pattern}"


def uncovered() -> list[str]:
    """Addresses that no picture shows, and for which no reason is given either."""
    shown = {shot.url for shot in SHOTS}
    return sorted({name for name in names() if name not in shown and not _has_reason(name)})


def _has_reason(name: str) -> bool:
    return name in NO_PICTURE or any(one.endswith("*") and name.startswith(one[:-1]) for one in NO_PICTURE)
