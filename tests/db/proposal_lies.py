"""The lies about proposals and reviewed calls. Importing LIES from here has all of them, lies.py's too."""

from __future__ import annotations

from functools import partial

from django.db import models

from cayu_runtime.core import states
from tests import rows
from tests.db.lies import LIES, NOW, OTHER_ID, another, lies, of

__all__ = ["LIES"]

# ---- proposal ----

proposal = partial(of, rows.proposal)
two_proposals = another(rows.proposal, "tenant", {"action_id": "taken"})
lies("proposal_action_unique_in_tenant", ("from another session", two_proposals, {"action_id": "taken"}))
lies("proposal_state_known", ("no such state", proposal("open"), {"state": "lost"}))
lies(
    "proposal_closed_at_matches",
    *((f"{state} at no time", proposal(state), {"closed_at": None}) for state in states.PROPOSAL.final),
    ("open, yet closed", proposal("open"), {"closed_at": NOW}),
)
lies(
    "proposal_used_by_matches",
    ("used by nobody", proposal("used"), {"used_by_id": None}),
    ("open, yet used", proposal("open"), {"used_by_id": OTHER_ID}),
)
lies("proposal_has_time", ("over as it began", proposal(), {"expires_at": NOW}))
lies("proposal_round_not_negative", ("before the first round", proposal(), {"round_position": -1}))
lies("proposal_is_bounded", ("too long to read", proposal(), {"fields": {"note": "x" * 50_000}}))
lies("proposal_claims_no_other_operation", ("of another call", proposal(), {"action_id": "op_0f"}))

# ---- reviewed and repeated calls ----

call = partial(of, rows.call)
lies(
    "call_that_repeats_never_ran",
    ("repeats, yet may run", call("prepared"), {"repeats_id": OTHER_ID}),
    ("repeats, yet ran", call("completed", runs=1), {"repeats_id": OTHER_ID}),
)


def second_call_of_a_proposal(save: bool = True) -> models.Model:
    first = rows.call("awaiting_approval")
    first.proposal = rows.proposal(id=OTHER_ID, session=first.session)
    first.save()
    return rows.call("awaiting_approval", round=first.round, save=save)


lies("call_one_open_of_proposal", ("two for one", second_call_of_a_proposal, {"proposal_id": OTHER_ID}))

# ---- requests under a client's key ----

same_owner = another(rows.idempotency_key, "session", {"key": "mine"}, key="other")
lies("idempotency_key_once", ("one key twice", same_owner, {"key": "mine"}))
lies(
    "idempotency_is_sane",
    ("over before it began", of(rows.idempotency_key), {"expires_at": NOW}),
    ("before the first", of(rows.idempotency_key), {"position": -1}),
)
