"""The lies about who must agree. Importing LIES from here has all of them."""

from __future__ import annotations

from functools import partial

from tests import rows
from tests.db.lies import lies, of
from tests.db.quarantine_lies import LIES

__all__ = ["LIES"]

approval = partial(of, rows.approval)
decision = partial(of, rows.decision)

lies(
    "approval_agreed_needs_nobody",
    *((f"{state} without somebody", approval(state), {"needed": 1}) for state in ("approved", "consumed", "revoked")),
)
lies("approval_pending_needs_people", ("pending for nobody", approval("pending"), {"needed": 0}))
lies(
    "approval_stage_known",
    ("no tier", approval(), {"tier": 0}),
    ("above the highest", approval(), {"tier": 10}),
    ("before the first stage", approval(), {"stage": -1}),
)
lies("decision_condition_agrees", ("a denial with a condition", decision("deny"), {"condition": "by noon"}))
