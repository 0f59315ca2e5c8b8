"""What may be sent: bounded before it is parsed, typed exactly, with no field that nobody reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.exceptions import APIException
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from ..core import canonical
from ..errors import InvalidRequest

MAX_BYTES = canonical.MAX_BYTES
MAX_REASON = 20_000  # the services keep 2,000 characters of it
IDENTITY = frozenset(
    {"actor", "by", "decided_by", "on_behalf_of", "requester", "role", "roles", "source", "subject", "tenant",
     "tenant_id", "user", "user_id"}
)  # fmt: skip


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"
    default_detail = f"The body is larger than {MAX_BYTES} bytes. Send less."


class BoundedJSONParser(BaseParser):
    """JSON of at most MAX_BYTES and 64 levels. Larger or deeper text is refused unparsed."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        request = (parser_context or {})["request"]
        if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BYTES:
            raise TooLarge
        raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise TooLarge
        try:
            value = canonical.parse(raw)
        except canonical.NotCanonical as problem:
            raise InvalidRequest(str(problem)) from None
        if not isinstance(value, dict):
            raise InvalidRequest("The body must be one JSON object.")
        return value


class AlwaysJSON(BaseContentNegotiation):
    """The API speaks JSON, whatever a client says that it accepts."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        media_type = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == media_type), None)

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


class Text(serializers.CharField):
    """A string, and nothing that could be read as one. White space is kept."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    """A whole number as JSON has it: not a string, not a boolean, not 1.0."""

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return super().to_internal_value(data)


class Identifier(serializers.UUIDField):
    """An id as the API writes it: 36 characters, with hyphens."""

    def to_internal_value(self, data: Any) -> UUID:
        if not isinstance(data, str) or len(data) != 36:
            self.fail("invalid", value=canonical.bounded(str(data), 100))
        found: UUID = super().to_internal_value(data)
        return found


class Object(serializers.DictField):
    """One JSON object with any content."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("not_a_dict", input_type=type(data).__name__)
        return data


class Strict(serializers.Serializer[Any]):
    """Input in which every field is known. Who acts is never one of them."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        unknown = sorted(name for name in data if name not in self.fields)
        if unknown:
            raise serializers.ValidationError({canonical.bounded(name, 100): [_unknown(name)] for name in unknown[:20]})
        return dict(super().to_internal_value(data))


def _unknown(name: str) -> str:
    if name.lower() in IDENTITY:
        return "Who you are and your tenant come from your token or sign-in, never from the request. Leave this out."
    return "There is no such field. Leave it out; the API's description at /api/docs/ names those that exist."
