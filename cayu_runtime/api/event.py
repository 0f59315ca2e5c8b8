from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..http.body import Strict
from ..http.documented import documented
from ..http.view import ApiView
from ..models import Event
from ..selectors.session import events_of
from .session import found_session

MAX_SEQ = 2**53 - 1
MAX_EVENTS = 500


class EventShown(serializers.ModelSerializer[Event]):
    """One record of what happened. `seq` has no gaps in a session."""

    payload = serializers.JSONField()

    class Meta:
        model = Event
        fields = ("seq", "type", "payload", "at")
        read_only_fields = fields


class EventPage(serializers.Serializer[Any]):
    results = EventShown(many=True)
    next = serializers.IntegerField(allow_null=True, help_text="`after` of the next page; null on the last one.")


class EventQuery(Strict):
    after = serializers.IntegerField(
        required=False, default=0, min_value=0, max_value=MAX_SEQ, help_text="The last seq that you have."
    )
    limit = serializers.IntegerField(required=False, default=100, min_value=1, max_value=MAX_EVENTS)


class EventList(ApiView):
    @documented("list_events", "Read what happened, in order", {200: EventPage}, "not_found", query=EventQuery)
    def get(self, request: Request, session_id: str) -> Response:
        session, query = found_session(self, session_id), self.query(EventQuery)
        limit = query["limit"]
        found = events_of(session, query["after"], limit + 1)
        following = found[limit - 1].seq if len(found) > limit else None
        return Response({"results": EventShown(found[:limit], many=True).data, "next": following})
