from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..http.body import Strict, Text
from ..http.documented import IDEMPOTENCY_KEY, MAX_PAGE, PAGE, documented
from ..http.view import ApiView, accepted
from ..models import Message, Session
from ..models.message import ROLES
from ..selectors.session import messages_after
from ..services.idempotency import Keep, do_once
from ..services.session import MAX_TEXT, continue_session
from .session import found_session

SPOKEN = ("user-prompt", "text")
MAX_POSITION = 2**31 - 1


class MessageShown(serializers.ModelSerializer[Message]):
    """An entry of the transcript: `body` as the model library writes it, `text` what was said in it."""

    role = serializers.ChoiceField(choices=ROLES)
    text = serializers.SerializerMethodField()
    body = serializers.JSONField()

    class Meta:
        model = Message
        fields = ("position", "role", "text", "body", "created_at")
        read_only_fields = fields

    def get_text(self, message: Message) -> str:
        parts = message.body.get("parts", []) if isinstance(message.body, dict) else []
        said = [part.get("content") for part in parts if isinstance(part, dict) and part.get("part_kind") in SPOKEN]
        return "\n".join(text for text in said if isinstance(text, str))


class MessagePage(serializers.Serializer[Any]):
    results = MessageShown(many=True)
    next = serializers.IntegerField(allow_null=True, help_text="`after` of the next page; null on the last one.")


class MessageAccepted(serializers.Serializer[Any]):
    """The message as it was accepted; the session runs at once."""

    session_id = serializers.CharField()
    position = serializers.IntegerField()


class MessageQuery(Strict):
    after = serializers.IntegerField(required=False, default=-1, min_value=-1, max_value=MAX_POSITION)
    limit = serializers.IntegerField(required=False, default=PAGE, min_value=1, max_value=MAX_PAGE)


class SendMessage(Strict):
    text = Text(max_length=MAX_TEXT)


class MessageList(ApiView):
    @documented("list_messages", "Read the transcript", {200: MessagePage}, "not_found", query=MessageQuery)
    def get(self, request: Request, session_id: str) -> Response:
        session, query = found_session(self, session_id), self.query(MessageQuery)
        limit = query["limit"]
        found = messages_after(session, query["after"], limit + 1)
        following = found[limit - 1].position if len(found) > limit else None
        return Response({"results": MessageShown(found[:limit], many=True).data, "next": following})

    @documented(
        "continue_session", "Go on with a message",
        {202: MessageAccepted},
        "not_found", "not_accepting", "lost_race", "unfinished", "idempotency_conflict", "limit_reached",
        takes=SendMessage,
        headers=(IDEMPOTENCY_KEY,),
    )  # fmt: skip
    def post(self, request: Request, session_id: str) -> Response:
        found_session(self, session_id)
        body, caller = self.body(SendMessage), self.caller
        key = request.headers.get("Idempotency-Key")
        if key is None:
            _, position = continue_session(caller.tenant, caller.actor, session_id, text=body["text"])
            return accepted({"session_id": session_id, "position": position})

        def act(keep: Keep) -> Session:
            session, _ = continue_session(caller.tenant, caller.actor, session_id, text=body["text"], keep=keep)
            return session

        asked = {"route": "continue_session", "session_id": session_id, **body}
        done = do_once(caller.tenant, caller.actor, key, asked, act)
        return accepted({"session_id": session_id, "position": done.position}, replay=done.replay)
