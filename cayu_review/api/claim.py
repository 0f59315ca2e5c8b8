"""Saying over the API that one is looking at an approval. For people: an agent's token decides nothing, and so claims
nothing."""

from __future__ import annotations

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from cayu_runtime.errors import NotFound
from cayu_runtime.http.body import Strict
from cayu_runtime.http.documented import documented
from cayu_runtime.http.view import ApiView
from cayu_runtime.selectors.approval import find_approval

from ..models import Claim
from ..services.claim import claim_approval, release_claim


class ClaimShown(serializers.ModelSerializer[Claim]):
    """Who is looking at an approval, and until when: a hint for colleagues, never a right."""

    class Meta:
        model = Claim
        fields = ("approval", "holder_name", "since", "until")
        read_only_fields = fields


class NothingMore(Strict):
    """An empty object."""


class ApprovalClaim(ApiView):
    @documented(
        "claim_approval", "Say that you are looking at it",
        {200: ClaimShown},
        "own_request", "not_found", "claimed", "approval_expired", "conflict",
        takes=NothingMore,
    )  # fmt: skip
    def post(self, request: Request, approval_id: UUID) -> Response:
        _look_up(self, approval_id)
        self.body(NothingMore)
        claim = claim_approval(self.caller.tenant, self.caller.actor, approval_id)
        return Response(ClaimShown(claim).data)


class ApprovalRelease(ApiView):
    @documented(
        "release_approval", "Give back what you were looking at",
        {204: None},
        "own_request", "not_found",
        takes=NothingMore,
    )  # fmt: skip
    def post(self, request: Request, approval_id: UUID) -> Response:
        _look_up(self, approval_id)
        self.body(NothingMore)
        release_claim(self.caller.tenant, self.caller.actor, approval_id)
        return Response(status=204)


def _look_up(view: ApiView, approval_id: UUID) -> None:
    """What is not ours is not found, whatever was sent."""
    if find_approval(view.caller.tenant, approval_id) is None:
        raise NotFound("There is no such approval.")
