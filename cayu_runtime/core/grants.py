"""Standing grants: what an approver said in advance is found, counted and recorded in T1, and holds in T3 still.

A use is counted by a conditional UPDATE whose row count must be 1, in the transaction that lets the call pass, so that
sessions side by side never use a grant more often than it says. A call that finds none left waits for a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from ..models import Approval, Decision, Grant, Quarantine, ToolCall
from . import ids, secrets
from .grant_rules import covers
from .judgement import JudgedCall
from .requests import approval_of
from .statements import fetch, prepared, reader
from .transitions import Change

TAKEN_BACK = "The standing grant under which this would have passed was taken back. Nothing was done; ask again."
SOURCE = "grant"


def may_pass(call: ToolCall, judged: JudgedCall) -> bool:
    """Whether a grant is looked for: the call waits for a person, whom its policy does not insist on.

    Never where several must agree, for a reviewed action, what equals an uncertain one, or a call with a secret.
    """
    return (
        call.state == "awaiting_approval"
        and not judged.mandatory
        and judged.agreement is None
        and judged.reviewed is None
        and call.proposal_id is None
        and call.held_by_id is None
        and not _carries_secret(judged)
    )


def _carries_secret(judged: JudgedCall) -> bool:
    found: list[str] = []
    if judged.tool is not None and judged.tool.takes_secrets:
        secrets.at_secrets(judged.tool, judged.arguments, lambda path, part: found.append(path))
    return bool(found)


def use(change: Change, asking: Sequence[tuple[ToolCall, JudgedCall]]) -> dict[UUID, Grant]:
    """T1: the grant that lets each of these calls pass, one use of it counted; such a call is prepared.

    The uses are counted in one order of the grants, so that two sessions never wait for each other.
    """
    found = _live(change, {call.tool for call, _ in asking})
    left = {grant.pk: grant.max_uses - grant.uses for grant in found}
    wanted: list[tuple[Grant, ToolCall]] = []
    for call, judged in asking:
        grant = next((g for g in found if left[g.pk] > 0 and _covers(change, g, call, judged)), None)
        if grant is not None:
            left[grant.pk] -= 1
            wanted.append((grant, call))
    passed: dict[UUID, Grant] = {}
    for grant, call in sorted(wanted, key=lambda pair: pair[0].pk):
        if _moved(change, grant.pk, "uses = g.uses + 1", "AND g.uses < g.max_uses"):
            call.state = "prepared"
            passed[call.id] = grant
    return passed


def holds(change: Change, approval: Approval) -> bool:
    """T3: whether what let this call pass still stands; the grant keeps when it was used. True where people decided.

    It and a revocation wait for each other: when one is recorded, no call begins under the grant any more.
    """
    if approval.grant_id is None:
        return True
    return _moved(change, approval.grant_id, "last_used_at = %s", "", prepared(Grant, "last_used_at", change.now))


def approve(change: Change, call: ToolCall, judged: JudgedCall, grant: Grant) -> Approval:
    """The approval of a call that passed, with its decision and its event; the caller inserts both rows."""
    expires_at = min(change.now + timedelta(seconds=judged.expires_in), grant.expires_at)
    passed = {"state": "approved", "decided_at": change.now, "grant": grant, "needed": 0}
    approval = approval_of(change, call, call.decision_reason, expires_at, judged.four_eyes, **passed)
    approval.decided_by = Decision(
        id=ids.new_id(),
        tenant_id=call.tenant_id,
        approval=approval,
        verdict="approve",
        actor=grant.made_by,
        actor_name=grant.made_by_name,
        source=SOURCE,
        roles=[],
        version=approval.version,
        digest=approval.intent_digest,
        reason=grant.reason,
        decided_at=change.now,
    )
    change.event(
        "tool.call.approved_by_grant",
        call=call,
        approval=str(approval.id),
        grant=str(grant.pk),
        by=grant.made_by,
        by_name=grant.made_by_name,
        version=approval.version,
        digest=approval.intent_digest.hex(),
        policy=call.policy,
    )
    return approval


def _covers(change: Change, grant: Grant, call: ToolCall, judged: JudgedCall) -> bool:
    """Whether a grant is about this call. By four eyes nobody lets their own requests pass."""
    return (
        (grant.tool, grant.tool_version) == (call.tool, call.tool_version)
        and grant.agent in ("", change.session.agent)
        and not (judged.four_eyes and grant.made_by == change.session.requester)
        and covers(grant.rules, call.arguments)
    )


# Not taken back, not over, and made after the last restored backup, whose rows may not know that it was taken back.
_STANDS = f"""g.tenant_id = %s AND g.revoked_at IS NULL AND g.expires_at > %s AND NOT EXISTS (
    SELECT 1 FROM {Quarantine._meta.db_table} q
    WHERE (q.tenant_id IS NULL OR q.tenant_id = g.tenant_id) AND q.started_at >= g.made_at)"""  # noqa: S608


def _standing(change: Change) -> list[Any]:
    return [prepared(Grant, "tenant", change.session.tenant_id), prepared(Grant, "expires_at", change.now)]


def _live(change: Change, tools: set[str]) -> list[Grant]:
    """The grants for these tools that have a use left; the first to end comes first."""
    read = reader(Grant, "g")
    marks = ", ".join(["%s"] * len(tools))
    sql = f"""SELECT {read.columns} FROM {read.table} WHERE {_STANDS} AND g.tool IN ({marks})
        AND g.uses < g.max_uses ORDER BY g.expires_at, g.id"""  # noqa: S608  names come from the models
    return [read.row(row) for row in fetch(sql, [*_standing(change), *sorted(tools)])]


def _moved(change: Change, grant: UUID, sets: str, guard: str, *values: Any) -> bool:
    """Move the counters of a grant if it still stands. Its row count is the answer."""
    table = Grant._meta.db_table
    sql = f"UPDATE {table} AS g SET {sets} WHERE g.id = %s AND {_STANDS} {guard}"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [*values, prepared(Grant, "id", grant), *_standing(change)])
        count: int = cursor.rowcount
    return count == 1
