"""A session's rows as a person reads them: what was said, what was called, what was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from cayu_runtime.models import Event, Message, ToolCall

from .compare import Pair, changes
from .exact import Row, rows, visible
from .wording import INTERRUPTION_WORDS, ROUND_WORDS, Words, action_of, call_words, said_of

SHOWN = 4000


@dataclass(frozen=True, slots=True)
class Saying:
    """A text with what was left out of it, if anything: the whole is longer by `hidden` characters."""

    text: str
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class CallView:
    """One call for the session page. `arguments` is empty when they are too long for it; `size` then says how long.

    `changes`: the lines that a person changed before approving; those of a long call are on its request's page.
    """

    call: ToolCall
    words: Words
    action: str
    said: Saying
    arguments: tuple[Row, ...] = ()
    size: int = 0
    changes: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of the conversation: a text of the person or of the agent, or the calls of one round.

    `round` says of calls which round they are and where it stands.
    """

    kind: str
    at: datetime
    texts: tuple[Saying, ...] = ()
    calls: tuple[CallView, ...] = field(default=())
    round: str = ""


def conversation(messages: Iterable[Message], calls: Sequence[ToolCall]) -> list[Entry]:
    """Messages and rounds in the order in which they were made; a round stands after the message that asked for it."""
    said = [_message(message) for message in messages if message.role != "tools"]
    entries = [entry for entry in said if entry.texts]
    for _, group in groupby(calls, key=attrgetter("round_id")):
        made = list(group)
        at, calls_of = made[0].round, tuple(_call(call) for call in made)
        where = f"Round {at.position + 1}, {ROUND_WORDS[at.state]}"
        entries.append(Entry("calls", at.created_at, calls=calls_of, round=where))
    order = {"person": 0, "agent": 1, "calls": 2}
    return sorted(entries, key=lambda entry: (entry.at, order[entry.kind]))


def _message(message: Message) -> Entry:
    wanted = "user-prompt" if message.role == "user" else "text"
    parts = message.body.get("parts", []) if isinstance(message.body, dict) else []
    texts = [_text(part.get("content")) for part in parts if isinstance(part, dict) and part.get("part_kind") == wanted]
    kind = "person" if message.role == "user" else "agent"
    return Entry(kind, message.created_at, texts=tuple(_saying(text) for text in texts if text.strip()))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(item if isinstance(item, str) else "(attachment)" for item in content)
    return ""


def _saying(text: str) -> Saying:
    return Saying(text[:SHOWN], max(0, len(text) - SHOWN))


def _call(call: ToolCall) -> CallView:
    asked = call.proposed_arguments
    size = len(json.dumps(call.arguments if asked is None else [asked, call.arguments], ensure_ascii=False))
    return CallView(
        call,
        call_words(call),
        action_of(call.verb, call.target),
        _saying(said_of(call)),
        arguments=rows(call.arguments) if size <= SHOWN else (),
        size=size,
        changes=changes(asked, call.arguments) if asked is not None and size <= SHOWN else (),
    )


def event_words(event: Event) -> str:
    """What an event recorded, in a sentence's length. An unknown kind is told by its own name."""
    payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
    if payload.get("interruption") in INTERRUPTION_WORDS:
        payload = {**payload, "waits": INTERRUPTION_WORDS[payload["interruption"]].text}
    template = EVENTS.get(event.type, event.type)
    return visible(template.format_map(_Payload(payload)) + _usage(payload))


def _usage(payload: dict[str, Any]) -> str:
    """What a model step used, where its event tells: ". By openai:gpt-5: 812 tokens in, 40 out"."""
    usage = payload.get("usage")
    if not isinstance(usage, dict):
        return ""
    used = f"{usage.get('input_tokens', '–')} tokens in, {usage.get('output_tokens', '–')} out"
    return f". By {payload['model']}: {used}" if payload.get("model") else f". {used}"


class _Payload(dict[str, Any]):
    """A payload whose missing fields read as a dash, so that an old or foreign event never breaks a page."""

    def __missing__(self, key: str) -> str:
        return "–"


EVENTS = {
    "session.started": "Started by {by_name}",
    "session.interrupted": "{waits}",
    "session.stop_requested": "Stop asked for by {by_name}",
    "session.continued": "Message from {by_name}",
    "session.resume_requested": "Resume asked for by {by_name}",
    "session.resumed": "Session goes on",
    "session.completed": "Session finished",
    "session.failed": "Session failed",
    "session.abandoned": "Given up by {by_name}: {reason}",
    "session.limit_reached": "A limit was reached. {reason}",
    "session.claimed_after_crash": "A worker was lost; another one goes on",
    "proposal.recorded": "{action_id} put on record for {action_tool}",
    "proposal.withdrawn": "Proposal {action_id} withdrawn",
    "proposal.expired": "Time to use proposal {action_id} ended",
    "model.completed": "The model answered, calls asked for: {calls}",
    "model.error": "The model gave no answer ({error})",
    "question.asked": "A person is asked",
    "question.answered": "Answered by {by_name}",
    "question.expired": "Time to answer ended",
    "tool.call.approval_requested": "Approval asked for {tool}",
    "tool.call.approved": "{tool} approved by {by_name}",
    "tool.call.approval_counted": "{by_name} agrees to {tool}; others must agree too ({needed} of tier {tier})",
    "tool.call.approval_escalated": "{tool} was not agreed in time: tier {tier} is asked for",
    "tool.call.approved_by_grant": "{tool} passed under a standing grant of {by_name}",
    "tool.call.edited": "Arguments of {tool} changed by {by_name} before approving",
    "tool.call.approval_revoked": "Approval of {tool} taken back by {by_name}",
    "tool.call.held": "{tool} held: an equal action is uncertain",
    "tool.call.approval_cancelled": "Request to approve {tool} withdrawn",
    "tool.call.approval_denied": "{tool} denied by {by_name}",
    "tool.call.approval_expired": "Time to approve {tool} ended",
    "tool.call.approval_void": "Approval of {tool} is no longer valid",
    "tool.call.blocked": "{tool} refused ({reason})",
    "tool.call.started": "{tool} dispatched",
    "tool.call.completed": "{tool}: done",
    "tool.call.failed": "{tool}: failed",
    "tool.call.cancelled": "{tool} withdrawn before it was sent",
    "tool.effect.quarantined": "{tool} is uncertain: the database was restored from a backup",
    "session.quarantined": "{by_name} stopped it: the database was restored from a backup",
    "tool.call.paused": "{tool} held back, dispatch is paused: {reason}",
    "tool.call.worker_lost": "A worker was lost while {tool} ran",
    "tool.effect.outcome_unknown": "Outcome of {tool} unknown",
    "tool.effect.reconciliation.started": "{by_name} asks what became of {tool} ({kind})",
    "tool.effect.reconciliation.observed": "Seen of {tool}: {message}",
    "tool.effect.reconciliation.conflict": "Evidence about {tool} was not taken ({kind})",
    "tool.effect.receipt.validated": "The receipt of {tool} is accepted",
    "tool.effect.safe_to_retry": "Proved that {tool} did not happen; it may be approved once more",
    "tool.effect.verified": "{tool} checked {verified_tool}: {verification}",
    "recovery.plan.executed": "Recovery plan carried out by {by_name}: {reason}",
    "tool.effect.late_outcome": "{tool} answered after it was given up",
}
