"""The API's description (OpenAPI 3), made from the routes, once for each process."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiJsonRenderer


class Description(AutoSchema):
    """How a route is described: it stands under the first word of its address."""

    def get_description(self) -> str:
        return ""

    def get_tags(self) -> list[str]:
        words = self.path.removeprefix("/api/v1/").split("/")
        return [words[0]]


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """The whole description."""
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


@lru_cache(maxsize=1)
def _text() -> bytes:
    text: bytes = OpenApiJsonRenderer().render(document(), renderer_context={})
    return text


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    """The description, for everybody: it holds no data of any tenant."""
    return HttpResponse(_text(), content_type="application/json")
