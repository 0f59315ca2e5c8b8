from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .. import authority, registry
from ..contracts import Actor, Agent, Finding, Reconciler
from ..contracts.reconciler import MAX_RECEIPT
from ..core import adapters, canonical, receipted, reconciliation
from ..core.reconciliation import Admitted, Executor, Reconciled, Request
from ..core.results import visible
from ..errors import Conflict, EffectConflict, InvalidRequest, NotFound
from ..models import EffectRecord, Tenant
from ..selectors.worker import is_known_to_be_gone, lived_through


@dataclass(frozen=True, slots=True)
class Seen:
    """The identity of an effect as its person saw it; a request repeats it."""

    revision: int
    dispatch_id: uuid.UUID | None


@dataclass(frozen=True, slots=True)
class Ways:
    """What this deployment has to settle an effect with."""

    looks_up: bool
    takes_receipts: bool


def ways_to_settle(effect: EffectRecord) -> Ways:
    tool = adapters.tool_of(registry.find_agent(effect.session.agent), effect.call)
    reconciler = (tool.reconciler if tool is not None else None) or Reconciler()
    return Ways(reconciler.looks_up, reconciler.takes_receipts)


def look_up_effect(tenant: Tenant, actor: Actor, effect_id: uuid.UUID, seen: Seen, *, reason: str) -> Reconciled:
    """Ask the tool's adapter what became of an uncertain effect, and write what it says (DESIGN §7).

    Nothing is dispatched. The same request of the same person again returns what was recorded. Raises NotFound,
    NotPermitted, InvalidRequest, or a Conflict: StaleRevision, Unfinished, EffectConflict (what stands downstream does
    not fit), or that there is nothing to settle.
    """
    return _reconcile(tenant, actor, effect_id, seen, "lookup", None, reason)


def supply_receipt(
    tenant: Tenant, actor: Actor, effect_id: uuid.UUID, seen: Seen, receipt: Mapping[str, Any] | str, *, reason: str
) -> Reconciled:
    """Have the tool's adapter judge a receipt that a person supplies: a JSON object of at most 96 KiB, or its text.

    Only what the adapter validates for exactly this operation settles it; a person's word never does. Raises as
    `look_up_effect`.
    """
    return _reconcile(tenant, actor, effect_id, seen, "receipt", _checked(receipt), reason)


def verify_effect(tenant: Tenant, actor: Actor, effect_id: uuid.UUID) -> EffectRecord:
    """Have the verifier look at an effect whose receipt is held, if whoever should have was lost.

    Conflict when none is due, or when another receipt came to be held meanwhile; nobody is asked in vain.
    """
    effect = _find(tenant, effect_id)
    authority.require(actor, "reconcile", effect)
    receipted.require_due(effect)
    return _verified(registry.find_agent(effect.session.agent), effect)


def _reconcile(
    tenant: Tenant,
    actor: Actor,
    effect_id: uuid.UUID,
    seen: Seen,
    kind: str,
    receipt: Mapping[str, Any] | None,
    reason: str,
) -> Reconciled:
    effect = _find(tenant, effect_id)
    authority.require(actor, "reconcile", effect)
    if not visible(reason):
        raise InvalidRequest("Say why: each reconciliation needs a reason, which stays on record.")
    request = Request(effect.pk, seen.dispatch_id, seen.revision, kind, receipt, reason)
    admitted = reconciliation.admit(effect.session_id, tenant.pk, request, actor)
    if isinstance(admitted, Reconciled):
        return admitted
    return _answered(admitted, receipt, actor)


def _answered(admitted: Admitted, receipt: Mapping[str, Any] | None, actor: Actor) -> Reconciled:
    effect = admitted.effect
    agent = registry.find_agent(effect.session.agent)
    tool = adapters.tool_of(agent, admitted.call)
    adapter = tool.reconciler if tool else None
    inquiry = adapters.inquiry_of(agent, admitted.call, effect, admitted.session_id)
    executor = executor_of(effect)  # before the adapter looks: who ends only then may have acted after its look
    if receipt is None:
        observation = adapters.look_up(adapter, inquiry)
    else:
        observation = adapters.validate(adapter, receipt, inquiry)
    outcome = reconciliation.select(
        effect.session_id,
        admitted,
        observation,
        executor,
        verified_later=tool is not None and tool.verifier is not None,
    )
    if outcome.finding == Finding.CONFLICT:
        raise EffectConflict(outcome.message or "The evidence does not fit this operation. It is kept.")
    if outcome.effect.state == "receipted":
        with suppress(Conflict):  # the session's own worker verified it first
            _verified(agent, outcome.effect)
        outcome.effect.refresh_from_db()
    return outcome


def executor_of(effect: EffectRecord) -> Executor:
    """Who may have carried this effect out. After a restored backup that is anybody who worked before the quarantine:
    their rows may be missing, or say nothing of their end, so what counts is that nobody of them is heard any more.
    """
    sent, quarantined = effect.dispatched_at, effect.quarantined_at
    if quarantined is not None and (sent is None or sent <= quarantined):
        gone = not lived_through(quarantined)
    else:
        gone = sent is not None and is_known_to_be_gone(effect.dispatched_by, sent)
        gone = gone and (quarantined is None or not lived_through(quarantined))
    return Executor(gone, timedelta(seconds=registry.slowest_tool()))


def _verified(agent: Agent | None, effect: EffectRecord) -> EffectRecord:
    tool = adapters.tool_of(agent, effect.call)
    inquiry = adapters.inquiry_of(agent, effect.call, effect, effect.session.session_id)
    verification = adapters.verify(tool.verifier if tool else None, inquiry)
    return receipted.record_verdict_unheld(effect, verification)


def _find(tenant: Tenant, effect_id: uuid.UUID) -> EffectRecord:
    effect = EffectRecord.objects.select_related("session", "call").filter(tenant=tenant, pk=effect_id).first()
    if effect is None:
        raise NotFound("There is no such effect.")
    return effect


def _checked(receipt: Mapping[str, Any] | str) -> dict[str, Any]:
    try:
        read = canonical.parse(receipt) if isinstance(receipt, str) else receipt
        if not isinstance(read, Mapping):
            raise InvalidRequest("A receipt is one JSON object.")
        plain: dict[str, Any] = canonical.exact(dict(read))
    except (canonical.NotCanonical, TypeError, ValueError) as error:
        raise InvalidRequest(f"The receipt can't be used: {error}") from None
    size = canonical.size_of(plain)
    if size > MAX_RECEIPT:
        raise InvalidRequest(f"The receipt is {size} bytes; at most {MAX_RECEIPT} are accepted.")
    return plain
