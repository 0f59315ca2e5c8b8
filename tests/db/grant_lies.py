"""The lies about standing grants. Importing LIES from here has all of them."""

from __future__ import annotations

from datetime import timedelta

from tests import rows
from tests.db.agreement_lies import LIES
from tests.db.lies import NOW, OTHER_ID, lies, of

__all__ = ["LIES"]

grant = of(rows.grant)
taken_back = of(rows.grant, revoked_at=NOW, revoked_by="user:carol", revoke_reason="the week is over")

lies("grant_names_its_tool", ("no tool", grant, {"tool": ""}), ("no version", grant, {"tool_version": ""}))
lies("grant_says_who_and_why", ("no reason", grant, {"reason": ""}), ("nobody made it", grant, {"made_by": ""}))
lies(
    "grant_has_time",
    ("over before it began", grant, {"expires_at": NOW - timedelta(days=1)}),
    ("no time", grant, {"expires_at": NOW}),
)
lies(
    "grant_uses_bounded",
    ("used too often", grant, {"uses": 11}),
    ("of no use", grant, {"max_uses": 0}),
    ("used less than never", grant, {"uses": -1}),
)
lies("grant_dispatched_was_used", ("dispatched without a use", grant, {"last_used_at": NOW}))
lies(
    "grant_revoked_by_someone",
    ("by nobody", taken_back, {"revoked_by": ""}),
    ("for no reason", taken_back, {"revoke_reason": ""}),
    ("at no time", taken_back, {"revoked_at": None}),
)


lies(
    "approval_by_grant_is_decided",
    ("still asked", of(rows.approval), {"grant_id": OTHER_ID}),
    ("denied", of(rows.approval, "denied"), {"grant_id": OTHER_ID}),
)
