"""The lies that the database must refuse: a valid row, and a change that makes it one no table may hold.

One or more for each CHECK and unique constraint, by its name; a unique column is called `model.field`. What is done
with them, and that none is missing: test_constraints.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from django.db import models

from cayu_runtime.core import states
from cayu_runtime.core.ids import new_id
from tests import rows

MINUTE = timedelta(minutes=1)
NOW, LATER, DIGEST = rows.NOW, rows.LATER, rows.DIGEST
OTHER_ID = new_id()

Make = Callable[..., models.Model]


class Lie(NamedTuple):
    """`make` builds a valid row (`save=False`: not inserted); `change` makes it a lie that `constraint` refuses."""

    constraint: str
    why: str
    make: Make
    change: dict[str, Any]


LIES: list[Lie] = []


def lies(constraint: str, *cases: tuple[str, Make, dict[str, Any]]) -> None:
    LIES.extend(Lie(constraint, *case) for case in cases)


def of(make: Callable[..., Any], *state: str, **values: Any) -> Make:
    return partial(make, *state, **values)


def another(make: Callable[..., Any], shared: str, first: dict[str, Any], *state: str, **values: Any) -> Make:
    """Makes a second row beside a first one; both belong to the same `shared` row (their session, call, …)."""

    def build(save: bool = True) -> models.Model:
        one = make(**first)
        row: models.Model = make(*state, save=save, **{shared: getattr(one, shared)}, **values)
        return row

    return build


# ---- tenant ----

lies("tenant.slug", ("taken", another(rows.tenant, "name", {"slug": "acme"}), {"slug": "acme"}))
lies("tenant_limits_allow_one", ("none at all", of(rows.tenant), {"max_steps": 0}))

# ---- session ----

session = partial(of, rows.session)
lies(
    "session_id_unique_in_tenant",
    ("taken", another(rows.session, "tenant", {"session_id": "taken"}), {"session_id": "taken"}),
)
lies("session_state_known", ("no such state", session("pending"), {"state": "lost", "runnable_at": None}))
lies("session_interruption_known", ("no such reason", session("interrupted"), {"interruption": "bored"}))
lies("session_stopped_by_known", ("a gate never stops", session(), {"stopped_by": "approval_required"}))
lies(
    "session_interruption_matches",
    ("interrupted, nobody knows by what", session("interrupted"), {"interruption": None}),
    ("completed, yet interrupted", session("completed"), {"interruption": "worker_lost"}),
)
lies(
    "session_runnable_at_matches",
    ("pending, never runnable", session("pending"), {"runnable_at": None}),
    ("waits for a person, yet runnable", session("interrupted"), {"runnable_at": NOW}),
)
lies(
    "session_lease_owner_matches",
    ("running, held by nobody", session("running"), {"lease_owner": None}),
    ("being stopped, held by nobody", session("interrupting"), {"lease_owner": None}),
    ("pending, yet held", session("pending"), {"lease_owner": "worker-1"}),
)
lies(
    "session_lease_until_matches",
    ("a lease without end", session("running"), {"lease_until": None}),
    ("no holder, yet a lease", session("interrupted"), {"lease_until": LATER}),
)
lies(
    "session_failure_matches",
    ("failed for no reason", session("failed"), {"failure": None}),
    ("completed, yet failed", session("completed"), {"failure": "No."}),
)
lies(
    "session_finished_at_matches",
    ("completed at no time", session("completed"), {"finished_at": None}),
    ("failed at no time", session("failed"), {"finished_at": None}),
    ("running, yet finished", session("running"), {"finished_at": NOW}),
)
lies(
    "session_client_driven_never_runs",
    *(
        (f"client-driven and {state}", session(state), {"client_driven": True})
        for state in ("pending", "running", "interrupting")
    ),
)
lies("session_model_failures_not_negative", ("fewer than no failures", session(), {"model_failures": -1}))
lies(
    "session_counters_not_negative",
    *(
        (f"{counter} below zero", session(), {counter: -1})
        for counter in ("fence", "stalls", "steps", "messages", "rounds", "last_seq")
    ),
)

# ---- round ----

tool_round = partial(of, rows.tool_round)
two_rounds = another(rows.tool_round, "session", {"position": 7}, "settled")
lies("round_position_unique", ("two at one position", two_rounds, {"position": 7}))
lies(
    "round_one_open",
    ("a second one executes", two_rounds, {"state": "executing", "settled_at": None}),
    ("a second one waits", two_rounds, {"state": "waiting", "settled_at": None}),
)
lies("round_state_known", ("no such state", tool_round("waiting"), {"state": "lost"}))
lies(
    "round_settled_at_matches",
    ("settled at no time", tool_round("settled"), {"settled_at": None}),
    ("executing, yet settled", tool_round("executing"), {"settled_at": NOW}),
)

# ---- call ----

call = partial(of, rows.call)
two_calls = another(rows.call, "round", {"call_id": "c1", "position": 0})
lies("call_id_unique_in_round", ("twice in one round", two_calls, {"call_id": "c1"}))
lies("call_position_unique", ("two at one position", two_calls, {"position": 0}))
lies("call_state_known", ("no such state", call("prepared"), {"state": "lost"}))
lies("call_effect_class_known", ("no such class", call(), {"effect_class": "maybe"}))
lies("call_decision_known", ("no such decision", call(), {"decision": "perhaps"}))
lies(
    "call_result_matches",
    *((f"{state} without a result", call(state), {"result": None}) for state in states.CLOSED_CALL),
    *((f"{state}, yet a result", call(state), {"result": rows.RESULT}) for state in states.OPEN_CALL),
)
lies(
    "call_finished_at_matches",
    *((f"{state} at no time", call(state), {"finished_at": None}) for state in states.CLOSED_CALL),
    *((f"{state}, yet finished", call(state), {"finished_at": NOW}) for state in states.OPEN_CALL),
)
lies("call_dispatched_at_given", ("dispatched at no time", call("dispatched"), {"dispatched_at": None}))
lies(
    "call_blocked_says_why",
    ("blocked without a reason", call("blocked"), {"reason": ""}),
    ("blocked for no known reason", call("blocked"), {"reason": "bored"}),
)
lies("call_none_is_never_unknown", ("nothing to be unsure of", call("outcome_unknown"), {"effect_class": "none"}))
lies(
    "call_counters_sane",
    ("version 0", call(), {"version": 0}),
    ("fewer than no runs", call(), {"runs": -1}),
    ("fewer than none lost", call(), {"lost": -1}),
)

edited = partial(rows.call, version=2, proposed_arguments={"to": "x"}, edited_by="bob")
lies(
    "call_edit_keeps_what_was_proposed",
    ("edited, what was proposed is lost", edited, {"proposed_arguments": None}),
    ("edited by nobody", edited, {"edited_by": ""}),
    ("edited at the first version", edited, {"version": 1}),
    ("not edited, yet by somebody", call(), {"edited_by": "bob"}),
)

# ---- effect ----

effect = partial(of, rows.effect)
NO_DISPATCH = {
    "dispatch_id": None, "dispatches": 0, "dispatched_at": None, "deadline": None, "dispatch_fence": None,
    "dispatched_by": "",
}  # fmt: skip
NO_RECEIPT = {"receipt": None, "receipt_digest": None}


def two_effects(save: bool = True) -> models.Model:
    first = rows.effect("intent_recorded", dispatch_id=OTHER_ID, operation_id="op_taken")
    return rows.effect("intent_recorded", call=rows.call("dispatched", round=first.call.round), save=save)


def second_effect_of_a_call(save: bool = True) -> models.Model:
    first = rows.effect(call=rows.call(id=OTHER_ID))
    return rows.effect(call=rows.call("prepared", round=first.call.round), save=save)


lies("effect_operation_unique_in_tenant", ("one operation twice", two_effects, {"operation_id": "op_taken"}))
lies("effect_dispatch_unique", ("one dispatch of two effects", two_effects, {"dispatch_id": OTHER_ID}))
lies("effectrecord.call", ("two effects of one call", second_effect_of_a_call, {"call_id": OTHER_ID}))
lies("effect_state_known", ("no such state", effect("proposed"), {"state": "lost"}))
lies("effect_effect_class_known", ("NONE has no effect", effect(), {"effect_class": "none"}))
lies(
    "effect_closed_at_matches",
    *((f"{state} at no time", effect(state), {"closed_at": None}) for state in states.EFFECT.final),
    *(
        (f"{state}, yet closed", effect(state), {"closed_at": NOW})
        for state in states.EFFECT.names
        if state not in states.EFFECT.final
    ),
)
lies(
    "effect_receipt_given",
    ("receipted without a receipt", effect("receipted"), NO_RECEIPT),
    ("completed without a receipt", effect("completed"), NO_RECEIPT),
)
lies(
    "effect_receipt_absent",
    *(
        (f"a receipt while {state}", effect(state), rows.RECEIPT)
        for state in ("proposed", "intent_recorded", "abandoned")
    ),
)
lies("effect_dispatch_id_given", ("under way, never dispatched", effect("intent_recorded"), NO_DISPATCH))
DISPATCHED = {**rows.DISPATCH, "dispatch_id": OTHER_ID}
lies(
    "effect_dispatch_id_absent",
    ("dispatched before anybody agreed", effect("proposed"), DISPATCHED),
    ("abandoned after a dispatch", effect("abandoned"), DISPATCHED),
)
lies(
    "effect_unknown_since_given",
    ("unknown since never", effect("outcome_unknown"), {"unknown_since": None}),
    ("in review since never", effect("manual_review"), {"unknown_since": None}),
)
lies(
    "effect_unknown_was_dispatched",
    ("unknown, though it never began", effect("outcome_unknown"), NO_DISPATCH),
    *(
        (f"{state}, though it never began", effect(state), NO_DISPATCH)
        for state in ("receipted", "manual_review", "safe_to_retry", "completed", "rejected")
    ),
)
lies(
    "effect_dispatch_is_whole",
    *(
        (f"a dispatch without {part}", effect("safe_to_retry"), {part: None})
        for part in ("dispatched_at", "deadline", "dispatch_fence", "dispatch_id")
    ),
    ("a dispatch that is not counted", effect("safe_to_retry"), {"dispatches": 0}),
    ("counted, never dispatched", effect("authorized"), {"dispatches": 1}),
    ("fenced, never dispatched", effect("authorized"), {"dispatch_fence": 5}),
    ("sent by someone, never dispatched", effect("authorized"), {"dispatched_by": "w"}),
    ("a deadline of no dispatch", effect("authorized"), {"deadline": LATER}),
    ("dispatched at a time, by no dispatch", effect("authorized"), {"dispatched_at": NOW}),
)
lies(
    "effect_receipt_has_digest",
    ("a receipt without its digest", effect("completed"), {"receipt_digest": None}),
    ("a digest of no receipt", effect("outcome_unknown"), {"receipt_digest": DIGEST}),
)
lies(
    "effect_verification_of_receipt",
    ("no such verdict", effect("completed"), {"verification": "maybe"}),
    ("verified without a receipt", effect("manual_review"), {"verification": "passed"}),
)
lies("effect_not_linked_to_itself", ("its own first", effect(id=OTHER_ID), {"linked_to_id": OTHER_ID}))
lies("effect_revision_positive", ("revision 0", effect(), {"revision": 0}))

# ---- approval and decision ----

approval = partial(of, rows.approval)
decided_states = ("approved", "denied", "consumed", "revoked")
two_approvals = another(rows.approval, "call", {"version": 1}, "cancelled", version=2)

lies("approval_state_known", ("no such state", approval("pending"), {"state": "lost"}))
lies("approval_effect_class_known", ("no such class", approval(), {"effect_class": "maybe"}))
lies(
    "approval_closed_at_matches",
    *((f"{state} at no time", approval(state), {"closed_at": None}) for state in states.APPROVAL.final),
    ("pending, yet closed", approval("pending"), {"closed_at": NOW}),
    ("approved, yet closed", approval("approved"), {"closed_at": NOW}),
)
lies(
    "approval_decided_at_given",
    *((f"{state} at no time", approval(state), {"decided_at": None}) for state in decided_states),
)
lies(
    "approval_decided_by_given",
    *((f"{state} by nobody", approval(state), {"decided_by_id": None}) for state in decided_states),
)
lies(
    "approval_decision_is_whole",
    ("a time without a decision", approval("expired"), {"decided_at": NOW}),
    ("a decision without a time", approval("expired", decided_at=NOW), {"decided_at": None}),
)
lies(
    "approval_pending_is_undecided",
    ("decided, yet pending", approval("approved"), {"state": "pending", "needed": 1}),
)
lies(
    "approval_has_time",
    ("over before it began", approval(), {"expires_at": NOW - MINUTE}),
    ("over as it began", approval(), {"expires_at": NOW}),
)
lies("approval_version_positive", ("version 0", approval(), {"version": 0}))
lies("approval_version_unique", ("one version twice", two_approvals, {"version": 1}))
lies("approval_one_live", ("a second one pending", two_approvals, {"state": "pending", "closed_at": None}))

decision = partial(of, rows.decision)
two_decisions = another(rows.decision, "approval", {}, "revoke")
lies("decision_verdict_known", ("no such verdict", decision(), {"verdict": "perhaps"}))
lies("decision_once_per_person", ("the same person, again", two_decisions, {"verdict": "approve"}))

# ---- question ----

question = partial(of, rows.question)


def second_question_of_a_call(save: bool = True) -> models.Model:
    first = rows.question(call=rows.call("awaiting_answer", id=OTHER_ID))
    return rows.question(call=rows.call("awaiting_answer", round=first.call.round), save=save)


lies("question.call", ("two questions of one call", second_question_of_a_call, {"call_id": OTHER_ID}))
lies("question_state_known", ("no such state", question("pending"), {"state": "lost"}))
lies(
    "question_closed_at_matches",
    *((f"{state} at no time", question(state), {"closed_at": None}) for state in states.QUESTION.final),
    ("pending, yet closed", question("pending"), {"closed_at": NOW}),
)
lies(
    "question_answer_matches",
    ("answered with nothing", question("answered"), {"answer": None}),
    ("expired, yet answered", question("expired"), {"answer": "yes"}),
    ("pending, yet answered", question("pending"), {"answer": "yes"}),
)
lies("question_answered_by_someone", ("answered by nobody", question("answered"), {"answered_by": ""}))
lies("question_has_time", ("over as it began", question(), {"expires_at": NOW}))

# ---- attempt ----

attempt = partial(of, rows.attempt)
two_attempts = another(
    rows.attempt, "effect", {"kind": "dispatch", "dispatch_id": OTHER_ID}, "selected",
    kind="dispatch", dispatch_id=rows.new_id(),
)  # fmt: skip
lies("attempt_kind_known", ("no such kind", attempt(), {"kind": "guess"}))
lies("attempt_state_known", ("no such state", attempt("admitted"), {"state": "lost"}))
lies(
    "attempt_closed_at_matches",
    *((f"{state} at no time", attempt(state), {"closed_at": None}) for state in states.ATTEMPT.final),
    ("admitted, yet closed", attempt("admitted"), {"closed_at": NOW}),
)
lies("attempt_one_admitted", ("a second one", two_attempts, {"state": "admitted", "closed_at": None}))
lies("attempt_dispatch_unique", ("one dispatch tried twice", two_attempts, {"dispatch_id": OTHER_ID}))
lies("attempt_dispatch_has_id", ("a dispatch without identity", attempt(), {"kind": "dispatch"}))

# ---- the chains and the transcript ----

lies("event_seq_unique", ("one seq twice", another(rows.event, "session", {"seq": 1}, seq=2), {"seq": 1}))
lies("event_seq_positive", ("seq 0", of(rows.event), {"seq": 0}))
lies("audit_seq_unique", ("one seq twice", another(rows.audit_entry, "tenant", {"seq": 1}, seq=2), {"seq": 1}))
lies("audit_seq_positive", ("seq 0", of(rows.audit_entry), {"seq": 0}))
lies(
    "message_position_unique",
    ("one position twice", another(rows.message, "session", {"position": 0}, position=1), {"position": 0}),
)
lies("message_role_known", ("no such role", of(rows.message), {"role": "system"}))

# ---- the kill switch ----

lies(
    "pause_unique",
    ("twice for one tool", another(rows.pause, "tenant", {"tool": "refund"}, tool="pay"), {"tool": "refund"}),
)
lies(
    "pause_unique_everywhere",
    ("twice for all", another(rows.pause, "tenant", {"tenant": None, "tool": ""}, tool="pay"), {"tool": ""}),
)
lies("pause_says_why", ("no reason", of(rows.pause), {"reason": ""}))

# ---- the worker processes ----

busy = of(rows.worker, session=OTHER_ID, busy_since=NOW)
lies("worker_with_session_is_busy", ("runs a session since never", busy, {"busy_since": None}))

# ---- attachments ----

two_attachments = another(rows.attachment, "call", {}, position=1)
lies("attachment_kind_known", ("no such kind", of(rows.attachment), {"kind": "picture"}))
lies("attachment_position_unique", ("two at one place", two_attachments, {"position": 0}))
lies(
    "attachment_numbers_sane",
    ("smaller than nothing", of(rows.attachment), {"size": -1}),
    ("before the first", of(rows.attachment), {"position": -1}),
)
