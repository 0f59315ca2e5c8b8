"""What tests of reconciliation share: a downstream that may lose its answers, an adapter that a test scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from cayu_runtime import (
    Finding,
    Inquiry,
    Observation,
    Reconciler,
    ToolContext,
    ToolEffect,
    ToolResult,
    Verdict,
    Verification,
    Verifier,
)
from cayu_runtime.core import clock
from cayu_runtime.core.reconciliation import Reconciled
from cayu_runtime.models import EffectRecord, Session
from cayu_runtime.services.effect import Seen, look_up_effect, supply_receipt
from tests.machine import Counter, Gate, Machine, agent_of

DONE = ToolResult("booked", {"to": "x"})
LATER = timedelta(seconds=200)


class Adapter(Reconciler):
    """Answers as the test says, and keeps what it was asked."""

    def __init__(self, *answers: Observation | Finding | Exception | Callable[[Inquiry], Any]) -> None:
        self.answers = list(answers)
        self.asked: list[Inquiry] = []
        self.receipts: list[Mapping[str, Any]] = []

    def lookup(self, inquiry: Inquiry) -> Observation:
        self.asked.append(inquiry)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Finding):
            return Observation(answer, result=DONE if answer is Finding.CONFIRMED_DONE else None)
        return answer if isinstance(answer, Observation) else answer(inquiry)

    def validate_receipt(self, receipt: Mapping[str, Any], inquiry: Inquiry) -> Observation:
        self.receipts.append(receipt)
        if receipt.get("operation") != inquiry.operation_id or receipt.get("tool_version") != inquiry.tool_version:
            return Observation(Finding.CONFLICT, "The receipt is for another operation.")
        return Observation(Finding.CONFIRMED_DONE, result=DONE)


class Looks(Verifier):
    """A verifier that says what the test wants, or fails."""

    def __init__(self, *verdicts: Verdict | Exception) -> None:
        self.verdicts = list(verdicts)

    def verify(self, inquiry: Inquiry) -> Verification:
        verdict = self.verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return Verification(verdict, "looked")


class Downstream(Counter):
    """Loses its answers so many times, then answers."""

    def __init__(
        self,
        reconciler: Reconciler | None,
        *,
        losses: int = 1,
        effect: ToolEffect = ToolEffect.EXTERNAL,
        verifier: Verifier | None = None,
    ) -> None:
        super().__init__(effect=effect, does=self._answer)
        self.losses = losses
        self.reconciler = reconciler
        self.verifier = verifier

    def _answer(self, ctx: ToolContext, args: dict[str, Any]) -> ToolResult:
        if self.count <= self.losses:
            raise ConnectionError("no answer")
        return DONE


def unknown(machine: Machine, tool: Downstream) -> tuple[Session, EffectRecord]:
    """A session whose one action nobody knows the outcome of."""
    session = machine.start(agent_of(tool, policy=Gate()))
    effect = machine.effect(session)
    assert (session.interruption, effect.state) == ("effect_outcome_unknown", "outcome_unknown")
    return session, effect


def seen(effect: EffectRecord) -> Seen:
    return Seen(effect.revision, effect.dispatch_id)


def look_up(machine: Machine, effect: EffectRecord, *, as_seen: Seen | None = None, by: Any = None) -> Reconciled:
    """Ask about an effect as it is now, or as somebody saw it."""
    effect.refresh_from_db()
    return look_up_effect(
        machine.tenant, by or machine.bob, effect.pk, as_seen or seen(effect), reason="customer called"
    )


def bring(machine: Machine, effect: EffectRecord, receipt: Mapping[str, Any]) -> Reconciled:
    effect.refresh_from_db()
    return supply_receipt(machine.tenant, machine.bob, effect.pk, seen(effect), receipt, reason="bank statement")


def long_after() -> Any:
    """Later than the deadline of any dispatch here and its grace."""
    return clock.shifted(LATER)
