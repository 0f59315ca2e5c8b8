from __future__ import annotations

from typing import Any

from django.core.validators import RegexValidator
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..core.states import INTERRUPTIONS, SESSION
from ..errors import NotFound
from ..http.body import MAX_REASON, Strict, Text
from ..http.cursor import cursor_after, place_of
from ..http.documented import IDEMPOTENCY_KEY, CursorQuery, documented, listed
from ..http.view import ApiView, accepted, page_of
from ..models import Session
from ..selectors import session as sessions
from ..services.idempotency import do_once
from ..services.session import MAX_TEXT, abandon_session, interrupt_session, resume_session, start_session

SESSION_ID = r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,80}$"


class SessionShown(serializers.ModelSerializer[Session]):
    """One run of one agent. `interruption` says for what an interrupted one waits, or why it was stopped."""

    state = serializers.ChoiceField(choices=SESSION.names)
    interruption = serializers.ChoiceField(choices=INTERRUPTIONS, allow_null=True)

    class Meta:
        model = Session
        fields = (
            "session_id", "agent", "agent_version", "task", "state", "interruption", "stopped_by", "failure",
            "requester_name", "steps", "messages", "last_seq", "created_at", "updated_at", "finished_at",
        )  # fmt: skip
        read_only_fields = fields


class SessionStarted(serializers.Serializer[Session]):
    """The session as it was accepted; it runs at once. The same for each repetition of the request."""

    session_id = serializers.CharField()
    agent = serializers.CharField()
    state = serializers.CharField(default="pending", help_text="As accepted: pending. Read the session for its state.")
    created_at = serializers.DateTimeField()


class StartSession(Strict):
    agent = Text(max_length=100, help_text="Name of a registered agent.")
    text = Text(max_length=MAX_TEXT, help_text="What the agent should do.")
    session_id = Text(
        required=False, max_length=80, validators=[RegexValidator(SESSION_ID)], help_text="Yours, else one is made."
    )


class SessionQuery(CursorQuery):
    state = serializers.ChoiceField(choices=SESSION.names, required=False, default="")
    interruption = serializers.ChoiceField(choices=INTERRUPTIONS, required=False, default="")
    agent = serializers.CharField(required=False, default="", max_length=100)


class Reason(Strict):
    reason = Text(required=False, default="", allow_blank=True, max_length=MAX_REASON)


class ReasonNeeded(Strict):
    reason = Text(max_length=MAX_REASON, help_text="Why. It stays on record.")


class SessionList(ApiView):
    @documented("list_sessions", "List sessions, newest first", {200: listed(SessionShown)}, query=SessionQuery)
    def get(self, request: Request) -> Response:
        query = self.query(SessionQuery)
        only = sessions.SessionFilter(query["state"], query["interruption"], query["agent"])
        limit = query["limit"]
        found = sessions.newest_sessions(self.caller.tenant, place_of(query["cursor"]), limit + 1, only)
        last = found[limit - 1] if len(found) > limit else None
        return page_of(SessionShown, found[:limit], cursor_after(last.created_at, last.id) if last else None)

    @documented(
        "start_session", "Start a session",
        {202: SessionStarted},
        "session_exists", "unfinished", "idempotency_conflict", "limit_reached",
        takes=StartSession,
        headers=(IDEMPOTENCY_KEY,),
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        body, caller = self.body(StartSession), self.caller
        key = request.headers.get("Idempotency-Key")
        if key is None:
            return accepted(_started(start_session(caller.tenant, caller.actor, **body)))
        asked = {"route": "start_session", **body}
        done = do_once(
            caller.tenant, caller.actor, key, asked,
            lambda keep: start_session(caller.tenant, caller.actor, **body, keep=keep),
        )  # fmt: skip
        return accepted(_started(done.session), replay=done.replay)


def _started(session: Session) -> dict[str, Any]:
    facts = {"session_id": session.session_id, "agent": session.agent, "state": "pending"}
    return {**facts, "created_at": session.created_at}


class SessionDetail(ApiView):
    @documented("read_session", "Read a session", {200: SessionShown}, "not_found")
    def get(self, request: Request, session_id: str) -> Response:
        return Response(SessionShown(found_session(self, session_id)).data)


class SessionInterrupt(ApiView):
    @documented(
        "interrupt_session", "Stop a session", {200: SessionShown}, "not_found", "conflict", "lost_race", takes=Reason
    )
    def post(self, request: Request, session_id: str) -> Response:
        found_session(self, session_id)
        reason = self.body(Reason)["reason"]
        stopped = interrupt_session(self.caller.tenant, self.caller.actor, session_id, reason=reason)
        return Response(SessionShown(stopped).data)


class SessionResume(ApiView):
    @documented(
        "resume_session",
        "Let a stopped session go on",
        {200: SessionShown},
        "not_found",
        "not_resumable",
        "limit_reached",
        "lost_race",
        takes=Reason,
    )
    def post(self, request: Request, session_id: str) -> Response:
        found_session(self, session_id)
        reason = self.body(Reason)["reason"]
        resumed = resume_session(self.caller.tenant, self.caller.actor, session_id, reason=reason)
        return Response(SessionShown(resumed).data)


class SessionAbandon(ApiView):
    @documented(
        "abandon_session",
        "Give a session up; what is uncertain stays so",
        {200: SessionShown},
        "not_found",
        "conflict",
        "lost_race",
        takes=ReasonNeeded,
    )
    def post(self, request: Request, session_id: str) -> Response:
        found_session(self, session_id)
        reason = self.body(ReasonNeeded)["reason"]
        given_up = abandon_session(self.caller.tenant, self.caller.actor, session_id, reason=reason)
        return Response(SessionShown(given_up).data)


def found_session(view: ApiView, session_id: str) -> Session:
    """The session of this address, in the caller's tenant."""
    found = sessions.find_session(view.caller.tenant, session_id)
    if found is None:
        raise NotFound("There is no such session.")
    return found
