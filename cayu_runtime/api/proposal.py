from __future__ import annotations

from typing import Any

from django.core.validators import RegexValidator
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..core.states import PROPOSAL
from ..errors import NotFound
from ..http.body import Object, Strict, Text, Whole
from ..http.cursor import cursor_behind, text_of
from ..http.documented import CursorQuery, Hex, documented, listed
from ..http.view import ApiView, page_of
from ..models import Proposal
from ..selectors.proposal import proposal_of_action, proposals_after
from ..services.proposal import submit_proposal
from .session import SESSION_ID, found_session

MAX_SECONDS = 30 * 24 * 3600


class ProposalShown(serializers.ModelSerializer[Proposal]):
    """What an agent wants to do, on record before it asks to do it. `fields` are the arguments, for review."""

    session_id = serializers.CharField(source="session.session_id")
    state = serializers.ChoiceField(choices=PROPOSAL.names)
    digest = Hex(source="fields_digest")
    fields = serializers.JSONField()

    class Meta:
        model = Proposal
        fields = (
            "action_id", "session_id", "tool", "fields", "digest", "state", "reason", "created_at", "expires_at",
            "closed_at", "used_by",
        )  # fmt: skip
        read_only_fields = fields


class ProposalQuery(CursorQuery):
    session_id = serializers.RegexField(SESSION_ID, required=False, default="", max_length=80)


class Propose(Strict):
    session_id = Text(max_length=80, validators=[RegexValidator(SESSION_ID)])
    tool = Text(max_length=64, help_text="The tool of the session's agent that the action is of.")
    fields = Object(help_text="The arguments of the action, `action_id` among them.")
    expires_in = Whole(
        required=False, min_value=1, max_value=MAX_SECONDS, help_text="Seconds that it stays open; 7 days if not said."
    )


class ProposalList(ApiView):
    @documented(
        "list_proposals", "List proposals, by action_id", {200: listed(ProposalShown)}, "not_found", query=ProposalQuery
    )
    def get(self, request: Request) -> Response:
        query, tenant = self.query(ProposalQuery), self.caller.tenant
        session = found_session(self, query["session_id"]) if query["session_id"] else None
        limit = query["limit"]
        found = proposals_after(tenant, session, text_of(query["cursor"]), limit + 1)
        following = cursor_behind(found[limit - 1].action_id) if len(found) > limit else None
        return page_of(ProposalShown, found[:limit], following)

    @documented(
        "record_proposal", "Record a proposal",
        {200: ProposalShown, 201: ProposalShown},
        "not_found", "proposal_conflict", "conflict", "lost_race",
        takes=Propose,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        body: dict[str, Any] = self.body(Propose)
        recorded = submit_proposal(self.caller.tenant, self.caller.actor, **body)
        return Response(ProposalShown(recorded.proposal).data, status=200 if recorded.replay else 201)


class ProposalDetail(ApiView):
    @documented("read_proposal", "Read a proposal", {200: ProposalShown}, "not_found")
    def get(self, request: Request, action_id: str) -> Response:
        found = proposal_of_action(self.caller.tenant, action_id)
        if found is None:
            raise NotFound("There is no such proposal.")
        return Response(ProposalShown(found).data)
