from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from .. import authority
from ..errors import InvalidRequest, NotFound
from .body import Strict
from .caller import Caller

READING = ("GET", "HEAD")


class ApiView(APIView):
    """Base of all routes. To read, the caller must be allowed to view the tenant; a write asks in its service.

    A route looks its object up before it reads the body, so that what is not ours is not found, whatever was sent.
    """

    request: Request

    @property
    def caller(self) -> Caller:
        caller: Caller = self.request.auth
        return caller

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in READING:
            authority.require(self.caller.actor, "view", self.caller.tenant)

    def body(self, serializer: type[Strict]) -> dict[str, Any]:
        """The validated body."""
        return _valid(serializer, self.request.data)

    def query(self, serializer: type[Strict]) -> dict[str, Any]:
        """The validated query of the address."""
        sent = self.request.query_params
        twice = next((name for name in sent if len(sent.getlist(name)) > 1), None)
        if twice is not None:
            raise InvalidRequest(f"{twice[:100]} stands twice in the address. Send it once.")
        return _valid(serializer, sent.dict())

    def finalize_response(self, request: Request, response: HttpResponseBase, *args: Any, **kwargs: Any) -> Any:
        made = super().finalize_response(request, response, *args, **kwargs)
        made["Cache-Control"] = "no-store"
        return made


def _valid(serializer: type[Strict], data: Any) -> dict[str, Any]:
    made = serializer(data=data)
    made.is_valid(raise_exception=True)
    valid: dict[str, Any] = made.validated_data
    return valid


def page_of(shown: type[Serializer[Any]], rows: list[Any], following: str | None) -> Response:
    """One page of a list. `next` is the cursor of the page after it; null on the last one."""
    return Response({"results": shown(rows, many=True).data, "next": following})


def accepted(answer: dict[str, Any], *, replay: bool = False) -> Response:
    """202: it is recorded and goes on by itself. A header says that an earlier request under the same key did it."""
    return Response(answer, status=202, headers={"Idempotency-Replayed": "true"} if replay else None)


class NoSuchRoute(ApiView):
    """Any other address below the API: 404 as the API says it, after the same question who asks."""

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise NotFound("There is no such address. Each address ends with a slash; /api/docs/ names them.")
