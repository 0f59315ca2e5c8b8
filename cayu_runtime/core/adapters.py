"""The one place where reconcilers and verifiers run: outside any transaction, in a thread of their own, for a while.

They read, and never dispatch. One that raises, is late or answers nonsense has found nothing (DESIGN §7).
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from django.db import connections

from ..contracts import (
    Agent,
    Finding,
    Inquiry,
    Observation,
    Reconciler,
    Tool,
    ToolResult,
    Verdict,
    Verification,
    Verifier,
)
from ..contracts.reconciler import LOOKUP_SECONDS, MAX_MESSAGE
from ..models import EffectRecord, ToolCall
from . import canonical, results, secrets
from .perform import masked

Answer = TypeVar("Answer")
NO_ADAPTER = "This tool has no reconciler in this deployment, so nothing can be looked up or validated."


def inquiry_of(agent: Agent | None, call: ToolCall, effect: EffectRecord, session_id: str) -> Inquiry:
    """What an adapter is told: the operation as it was approved and sent."""
    return Inquiry(
        operation_id=effect.operation_id,
        idempotency_key=effect.idempotency_key,
        dispatch_id=str(effect.dispatch_id or ""),
        tenant=str(effect.tenant_id),
        session_id=session_id,
        tool=call.tool,
        tool_version=call.tool_version,
        arguments=call.arguments,
        dispatched_at=effect.dispatched_at,
        dispatch_deadline=effect.deadline,
        seconds_left=LOOKUP_SECONDS,
        resources=agent.resources if agent else {},
    )


def look_up(reconciler: Reconciler | None, inquiry: Inquiry) -> Observation:
    """What the downstream says of the operation."""
    if reconciler is None:
        return Observation(Finding.UNSUPPORTED, NO_ADAPTER)
    return _observed(reconciler.lookup, inquiry)


def validate(reconciler: Reconciler | None, receipt: Mapping[str, Any], inquiry: Inquiry) -> Observation:
    """What the adapter says of a receipt that a person supplied."""
    if reconciler is None:
        return Observation(Finding.UNSUPPORTED, NO_ADAPTER)
    return _observed(lambda asked: reconciler.validate_receipt(receipt, asked), inquiry)


def verify(verifier: Verifier | None, inquiry: Inquiry) -> Verification:
    """What a fresh read of the downstream says. A verifier that fails, or is gone, could not tell."""
    if verifier is None:
        return Verification(Verdict.INCONCLUSIVE, "The tool has no verifier in this deployment any more.")
    answer = _within_time(lambda: verifier.verify(inquiry))
    if isinstance(answer, Verification):
        return answer
    return Verification(
        Verdict.INCONCLUSIVE, f"The verifier gave no verdict ({_failure(answer, [inquiry.idempotency_key])})."
    )


def tool_of(agent: Agent | None, call: ToolCall) -> Tool | None:
    """The tool as it is registered now: an old version's outcome is looked up by the adapter of today."""
    return next((t for t in agent.tools if t.spec.name == call.tool), None) if agent else None


def _observed(ask: Callable[[Inquiry], Any], inquiry: Inquiry) -> Observation:
    """The adapter's answer, without any secret that it was given."""
    given: dict[str, str] = {}

    def read(reference: Mapping[str, Any]) -> str:
        return secrets.read_one(inquiry.tenant, reference, given)

    answer = _within_time(lambda: ask(replace(inquiry, read_secret=read)))
    if isinstance(answer, Observation):
        return _without(answer, secrets.hidden(given)) if given else answer
    failure = _failure(answer, [inquiry.idempotency_key, *given])
    return Observation(Finding.UNAVAILABLE, f"The adapter gave no answer ({failure}).")


def _without(seen: Observation, hidden: Mapping[str, str]) -> Observation:
    result = None if seen.result is None else _result_without(seen.result, hidden)
    versions = tuple(str(results.without(version, hidden))[:200] for version in seen.resource_versions)
    message = canonical.bounded(results.without(seen.message, hidden), MAX_MESSAGE)
    evidence = results.without(dict(seen.evidence), hidden)
    try:
        return replace(seen, message=message, result=result, evidence=evidence, resource_versions=versions)
    except ValueError:  # what stands for the secrets made it too long
        return replace(seen, message=message, result=result, evidence={}, resource_versions=versions)


def _within_time(ask: Callable[[], Any]) -> Any:
    """The adapter's answer, or the exception that it raised; TimeoutError when it is late."""
    box: list[Any] = []

    def work() -> None:
        try:
            box.append(ask())
        except BaseException as error:
            box.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="adapter", daemon=True)
    thread.start()
    thread.join(LOOKUP_SECONDS)
    return box[0] if box else TimeoutError(f"no answer within {LOOKUP_SECONDS:.0f} s")


def _result_without(result: ToolResult, hidden: Mapping[str, str]) -> ToolResult:
    structured = result.structured
    if structured is not None:
        structured = results.without(canonical.storable(dict(structured)), hidden)
    artifacts = tuple({**results.without(dict(part), hidden), **_body(part, hidden)} for part in result.artifacts)
    return ToolResult(results.without(result.content, hidden), structured, artifacts, result.is_error)


def _body(part: Mapping[str, Any], hidden: Mapping[str, str]) -> dict[str, Any]:
    body = part.get("body")
    if not isinstance(body, bytes):
        return {}
    for text, instead in hidden.items():
        body = body.replace(text.encode(), instead.encode())
    return {"body": body}


def _failure(answer: Any, hide: Iterable[str]) -> str:
    if not isinstance(answer, BaseException):
        return f"it returned a {type(answer).__name__}"
    words = masked(str(answer), hide)[:300]
    return f"{type(answer).__name__}: {words}" if words else type(answer).__name__
