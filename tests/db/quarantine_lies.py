"""The lies about quarantines and digests. Importing LIES from here has all of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import models

from tests import rows
from tests.db.lies import NOW, OTHER_ID, Make, lies, of
from tests.db.proposal_lies import LIES

__all__ = ["LIES"]

effect = partial(of, rows.effect)

# ---- quarantine ----

lies(
    "effect_quarantined_at_absent",
    ("proposed, yet from a backup", effect("proposed"), {"quarantined_at": NOW}),
    ("never dispatched, yet from a backup", effect("abandoned"), {"quarantined_at": NOW}),
)


def of_a_quarantine(save: bool = True, **values: Any) -> models.Model:
    values = {"tenant": rows.tenant(), "tool": "", **values}
    return rows.pause(save=save, quarantine=rows.quarantine(tenant=values["tenant"]), **values)


def two_quarantines(everywhere: bool = False) -> Make:
    """The second belongs to another tenant, or (None) to no one, until it is made a lie."""

    def build(save: bool = True) -> models.Model:
        of_a_quarantine(tenant=None if everywhere else rows.tenant(id=OTHER_ID))
        return of_a_quarantine(save=save)

    return build


def second_pause_of_a_quarantine(save: bool = True) -> models.Model:
    rows.pause(tool="", quarantine=rows.quarantine(id=OTHER_ID))
    return of_a_quarantine(save=save)


released = of(rows.quarantine, taken_at=NOW, released_at=NOW, released_by="user:bob", release_reason="all settled")
lies("dispatchpause.quarantine", ("twice closed by one", second_pause_of_a_quarantine, {"quarantine_id": OTHER_ID}))
lies("pause_one_quarantine", ("two for one tenant", two_quarantines(), {"tenant_id": OTHER_ID}))
lies("pause_one_quarantine_everywhere", ("two for all", two_quarantines(everywhere=True), {"tenant_id": None}))
lies("pause_quarantine_holds_all", ("of one tool", of_a_quarantine, {"tool": "refund"}))
lies("quarantine_says_why", ("no reason", of(rows.quarantine), {"reason": ""}))
lies(
    "quarantine_released_by_someone_when_whole",
    ("released by nobody", released, {"released_by": ""}),
    ("released for no reason", released, {"release_reason": ""}),
    ("released before all was taken", released, {"taken_at": None}),
    ("released at no time", released, {"released_at": None}),
)

# ---- digests ----

SHORT = bytes(31)
for name, make, columns in (
    ("approval", of(rows.approval), ("intent_digest",)),
    ("decision", of(rows.decision), ("digest",)),
    ("attachment", of(rows.attachment), ("sha256",)),
    ("attempt", of(rows.attempt), ("request_digest",)),
    ("audit", of(rows.audit_entry), ("hash",)),
    ("call", of(rows.call), ("schema_digest", "action_digest", "intent_digest", "policy_digest")),
    ("effect", effect("completed"), ("action_digest", "intent_digest", "receipt_digest")),
    ("event", of(rows.event), ("hash",)),
    ("idempotency", of(rows.idempotency_key), ("request_digest",)),
    ("proposal", of(rows.proposal), ("fields_digest",)),
    ("question", of(rows.question), ("digest",)),
    ("session", of(rows.session), ("last_hash",)),
    ("tenant", of(rows.tenant), ("audit_hash",)),
):
    lies(f"{name}_digests_whole", *((f"half a {column}", make, {column: SHORT}) for column in columns))
