"""What stands in the way of a session, and what can safely be repaired: read from its rows, changing none (DESIGN §7).

The digest of a plan covers what it found and what it would do. Two plans with one digest do the same to the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from ..contracts import Agent
from ..models import EffectRecord, Session, ToolCall
from ..selectors.recovery import ENDED, Situation
from . import canonical
from .endings import OpenRound
from .recovery import FAIL_LOST, MARK_UNKNOWN, RUN_AGAIN, fate_of, in_flight
from .routing import interruption_of
from .states import LEASED, OPEN_CALL, PLAN, STOPPED_BY

DECIDED = ("receipted", "completed", "rejected")
BECOMES = {MARK_UNKNOWN: "outcome_unknown", FAIL_LOST: "failed", RUN_AGAIN: ""}


@dataclass(frozen=True, slots=True)
class Blocker:
    """What is in the way, since when. `about`: the approval's, question's or effect's id."""

    kind: str
    since: datetime
    call: ToolCall | None = None
    about: UUID | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        about = str(self.about) if self.about else None
        named = {**_named(self.call), "about": about}
        return {"kind": self.kind, "since": _at(self.since), **named, "evidence": self.evidence}


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that executing the plan does. `call_becomes` and `effect_becomes` are states, "" for no change."""

    kind: str
    call: ToolCall | None = None
    effect: EffectRecord | None = None
    call_becomes: str = ""
    effect_becomes: str = ""

    def facts(self) -> dict[str, Any]:
        effect = str(self.effect.pk) if self.effect else None
        become = {"call_becomes": self.call_becomes, "effect_becomes": self.effect_becomes}
        return {"kind": self.kind, **_named(self.call), "effect": effect, **become}


@dataclass(frozen=True)
class Plan:
    """What a session needs. `says` is what that means, and what a person can do."""

    session: Session
    status: str
    blockers: list[Blocker]
    repairs: list[Repair]

    @property
    def says(self) -> str:
        return PLAN[self.status]

    @cached_property
    def digest(self) -> str:
        return canonical.digest(self.facts()).hex()

    def facts(self) -> dict[str, Any]:
        """What the digest covers, JSON-safe: no argument and no result of any call."""
        session = self.session
        return {
            "v": 1,
            "tenant": str(session.tenant_id),
            "session_id": session.session_id,
            "state": session.state,
            "interruption": session.interruption,
            "fence": session.fence,
            "status": self.status,
            "blockers": [blocker.facts() for blocker in self.blockers],
            "repairs": [repair.facts() for repair in self.repairs],
        }


def plan_of(situation: Situation, now: datetime, agent: Agent | None) -> Plan:
    """The plan of a session at this moment by the database's clock. `agent`: as this process knows it."""
    status, repairs = _judge(situation, now, agent)
    return Plan(situation.session, status, _blockers(situation, now, agent), repairs)


def open_round(situation: Situation) -> OpenRound | None:
    if situation.round is None:
        return None
    return OpenRound(situation.round, situation.calls, situation.effects, situation.approvals)


def _judge(situation: Situation, now: datetime, agent: Agent | None) -> tuple[str, list[Repair]]:
    session, states = situation.session, {call.state for call in situation.calls}
    if session.state in ENDED:
        return "ended", []
    if _is_held(session, now):
        return "running", []
    stopping = session.state == "interrupting"
    if any(_is_uncertain(situation, call) for call in situation.calls):
        return "pending_tool_effect", _stop(situation, agent) if stopping else _restate(session, states)
    if any(_is_decided(situation, call) for call in situation.calls):
        return "tool_effect_continuation_required", []
    if stopping:
        return "automatic_repair", _stop(situation, agent)
    if "awaiting_answer" in states:
        return "pending_user_input", _restate(session, states)
    if "awaiting_approval" in states:
        return "pending_approval", _restate(session, states)
    if session.state in LEASED:
        return "automatic_repair", [Repair("take_over"), *_after_loss(situation, agent)]
    if session.client_driven:
        return "client_execution", _restate(session, states)
    repairs = _restate(session, states) or _settle(situation, agent)
    if repairs:
        return "automatic_repair", repairs
    return ("stopped" if session.state == "interrupted" else "runnable"), []


def _is_held(session: Session, now: datetime) -> bool:
    return session.state in LEASED and session.lease_until is not None and session.lease_until > now


def _is_uncertain(situation: Situation, call: ToolCall) -> bool:
    return call.state == "outcome_unknown" and not _is_decided(situation, call)


def _is_decided(situation: Situation, call: ToolCall) -> bool:
    """Evidence of what happened is held, and the call does not have it yet."""
    effect = situation.effects.get(call.pk)
    return call.state in ("dispatched", "outcome_unknown") and effect is not None and effect.state in DECIDED


def _restate(session: Session, states: set[str]) -> list[Repair]:
    """An interrupted session that says another reason than its rows do."""
    wrong = session.state == "interrupted" and interruption_of(session, states) != session.interruption
    return [Repair("restate")] if wrong else []


def _settle(situation: Situation, agent: Agent | None) -> list[Repair]:
    """What certainly has not begun, of an agent that is known here, and that nobody holds back on purpose."""
    if agent is None:
        return []
    return [_undone(situation, call) for call in situation.calls if _has_not_begun(situation, call)]


def _has_not_begun(situation: Situation, call: ToolCall) -> bool:
    return call.state == "prepared" and call.lost == 0 and _pause_of(situation, call) is None


def _undone(situation: Situation, call: ToolCall) -> Repair:
    effect = situation.effects.get(call.pk)
    becomes = ("rejected" if effect.dispatches else "abandoned") if effect else ""
    return Repair("settle_prepared", call, effect, "failed", becomes)


def _after_loss(situation: Situation, agent: Agent | None) -> list[Repair]:
    """What the lost worker may have been running, each by its effect class; the rest only if nothing is in doubt."""
    work = open_round(situation)
    if work is None:
        return []
    lost = in_flight(work)
    repairs = [_lost(situation, call, agent, stopping=False) for call in lost]
    if any(repair.kind == MARK_UNKNOWN for repair in repairs):
        return repairs
    running = {call.pk for call in lost}
    return repairs + [repair for repair in _settle(situation, agent) if repair.call and repair.call.pk not in running]


def _lost(situation: Situation, call: ToolCall, agent: Agent | None, *, stopping: bool) -> Repair:
    effect = situation.effects.get(call.pk)
    kind = fate_of(call, effect, agent, stopping=stopping)
    doubted = "manual_review" if effect is not None and effect.state == "receipted" else "outcome_unknown"
    return Repair(kind, call, effect, BECOMES[kind], doubted if kind == MARK_UNKNOWN else "")


def _stop(situation: Situation, agent: Agent | None) -> list[Repair]:
    """What the holder's next write would have done, who is gone."""
    repairs = [Repair("finish_interruption")]
    for call in situation.calls:
        if call.state == "dispatched":
            repairs.append(_lost(situation, call, agent, stopping=True))
        elif call.state == "prepared":
            repairs.append(_undone(situation, call))
        elif call.state in ("awaiting_approval", "awaiting_answer"):
            effect = situation.effects.get(call.pk)
            becomes = ("rejected" if effect.dispatches else "abandoned") if effect else ""
            repairs.append(Repair("cancel", call, effect, "cancelled", becomes))
    return repairs


def _blockers(situation: Situation, now: datetime, agent: Agent | None) -> list[Blocker]:
    session = situation.session
    if session.state in ENDED:
        return [_doubt(situation, "pending_tool_effect", effect.call, effect) for effect in situation.doubts]
    if _is_held(session, now):
        return []
    found = [blocker for call in situation.calls if (blocker := _blocker(situation, call)) is not None]
    if session.state in LEASED and session.lease_until is not None:
        evidence = {"worker": session.lease_owner, "stalls": session.stalls}
        found.append(Blocker("worker_lost", session.lease_until, evidence=evidence))
    if session.state == "interrupted" and session.interruption in STOPPED_BY:
        found.append(Blocker("stopped", session.updated_at, evidence={"by": session.interruption}))
    if session.client_driven and session.interruption == "client_execution":
        found.append(Blocker("client_execution", session.updated_at))
    if agent is None:
        evidence = {"agent": session.agent, "version": session.agent_version}
        found.append(Blocker("agent_not_registered", session.created_at, evidence=evidence))
    return found


def _blocker(situation: Situation, call: ToolCall) -> Blocker | None:
    effect = situation.effects.get(call.pk)
    if _is_decided(situation, call) and effect is not None:
        return _doubt(situation, "tool_effect_continuation_required", call, effect)
    if call.state == "outcome_unknown" and effect is not None:
        return _doubt(situation, "pending_tool_effect", call, effect)
    if call.state == "awaiting_approval":
        return _asked(situation, call)
    if call.state == "awaiting_answer":
        question = situation.questions.get(call.pk)
        since = question.created_at if question else call.created_at
        evidence = {"expires_at": _at(question.expires_at)} if question else {}
        return Blocker("pending_user_input", since, call, question.pk if question else None, evidence)
    pause = _pause_of(situation, call) if call.state in OPEN_CALL else None
    if pause is not None:
        return Blocker(
            "dispatch_paused", pause.created_at, call, evidence={"by": pause.created_by, "why": pause.reason}
        )
    return None


def _asked(situation: Situation, call: ToolCall) -> Blocker:
    approval = situation.approvals.get(call.pk)
    evidence: dict[str, Any] = {"held_by": str(call.held_by_id)} if call.held_by_id else {}
    if approval is None:
        return Blocker("pending_approval", call.created_at, call, evidence=evidence)
    evidence |= {"version": approval.version, "expires_at": _at(approval.expires_at)}
    return Blocker("pending_approval", approval.created_at, call, approval.pk, evidence)


def _doubt(situation: Situation, kind: str, call: ToolCall, effect: EffectRecord) -> Blocker:
    failure = effect.failure_evidence or {}
    evidence = {
        "state": effect.state,
        "revision": effect.revision,
        "dispatch": str(effect.dispatch_id) if effect.dispatch_id else None,
        "dispatches": effect.dispatches,
        "deadline": _at(effect.deadline) if effect.deadline else None,
        "classification": failure.get("classification"),
        "verification": effect.verification,
        "receipt": bytes(effect.receipt_digest).hex() if effect.receipt_digest else None,
        "quarantined": effect.quarantined_at is not None,
        "given_up_at": _at(effect.abandoned_at) if effect.abandoned_at else None,
        "attempts": dict(sorted(situation.attempts.get(effect.pk, {}).items())),
    }
    since = effect.unknown_since or effect.dispatched_at or effect.created_at
    return Blocker(kind, since, call, effect.pk, evidence)


def _pause_of(situation: Situation, call: ToolCall) -> Any:
    agent = situation.session.agent
    return next((p for p in situation.pauses if p.tool in ("", call.tool) and p.agent in ("", agent)), None)


def _named(call: ToolCall | None) -> dict[str, Any]:
    if call is None:
        return {"call": None, "call_id": None, "tool": None, "call_state": None}
    return {"call": str(call.pk), "call_id": call.call_id, "tool": call.tool, "call_state": call.state}


def _at(moment: datetime) -> str:
    return moment.isoformat()
