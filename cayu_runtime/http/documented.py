"""What the API's description says of a route, and the fields that several routes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers

from .body import Strict
from .cursor import MAX_LENGTH
from .problem import CODES, MEDIA_TYPE

PAGE = 50
MAX_PAGE = 200


class FieldProblem(serializers.Serializer[Any]):
    field = serializers.CharField()
    message = serializers.CharField()


class Problem(serializers.Serializer[Any]):
    """A refusal, as RFC 9457 has it. `code` is stable; `detail` says what to do."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField()
    errors = FieldProblem(many=True, required=False)


@extend_schema_field(str)
class Hex(serializers.Field):
    """A digest as hexadecimal digits."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(read_only=True, **kwargs)

    def to_representation(self, value: bytes) -> str:
        return value.hex()


class CursorQuery(Strict):
    cursor = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=MAX_LENGTH, help_text="`next` of the page before."
    )
    limit = serializers.IntegerField(required=False, default=PAGE, min_value=1, max_value=MAX_PAGE)


IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "pattern": "^[!-~]{1,200}$"},
    OpenApiParameter.HEADER,
    description="Send the same key to send the same request again: it is carried out once in 24 hours.",
)
ALWAYS = ("invalid_request", "not_authenticated", "not_permitted", "throttled")
WITH_BODY = ("too_large", "unsupported_media_type")


def documented(
    name: str,
    summary: str,
    answers: dict[int, Any],
    *refusals: str,
    takes: type[Strict] | None = None,
    query: type[Strict] | None = None,
    headers: tuple[OpenApiParameter, ...] = (),
) -> Callable[[Any], Any]:
    """Describe one method of a route: what it answers, which codes it refuses with, what it takes."""
    statuses: dict[int, list[str]] = {}
    for code in (*ALWAYS, *(WITH_BODY if takes else ()), *refusals):
        statuses.setdefault(CODES[code].status, []).append(code)
    problems = {
        (status, MEDIA_TYPE): OpenApiResponse(Problem, ", ".join(f"`{code}`" for code in codes))
        for status, codes in statuses.items()
    }
    return extend_schema(
        operation_id=name,
        summary=summary,
        request=takes,
        parameters=[*([query] if query else []), *headers],
        responses={**answers, **problems},
    )


def listed(shown: type[Any]) -> type[Any]:
    """The answer of a list route: a page of `shown`, and the cursor of the next page."""
    fields = {
        "__doc__": "One page of a list.",
        "results": shown(many=True),
        "next": serializers.CharField(allow_null=True, help_text="Cursor of the next page; null on the last one."),
    }
    return type(f"{shown.__name__}Page", (serializers.Serializer,), fields)
