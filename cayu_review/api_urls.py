"""What people have of their own below the API's prefix. It stands before the runtime's routes, which end it."""

from __future__ import annotations

from django.urls import path

from .api import claim

urlpatterns = [
    path("approvals/<uuid:approval_id>/claim/", claim.ApprovalClaim.as_view(), name="api-claim"),
    path("approvals/<uuid:approval_id>/release/", claim.ApprovalRelease.as_view(), name="api-release"),
]
