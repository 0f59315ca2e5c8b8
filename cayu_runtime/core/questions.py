"""A question from T1 to its end: answered once by a person, or expired by time (DESIGN §3, §6).

Answering is T2's sibling. A refusal that must leave a trace commits its event and returns the conflict; the caller
raises it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ..contracts import Actor, Ask
from ..contracts.question import DEFAULT_ANSWER_SECONDS
from ..errors import AlreadyDecided, Conflict, DigestMismatch, NotFound, QuestionExpired
from ..models import Question, ToolCall
from . import canonical, ids, results
from .endings import OpenRound
from .routing import go_on, load_round
from .transitions import Change, transition


@dataclass(frozen=True, slots=True)
class Answered:
    """The recorded answer. `replay`: it had been recorded before, as this same answer of this same person."""

    question: Question
    replay: bool


def new_question(change: Change, call: ToolCall, ask: Ask) -> Question:
    """T1: the question of a call, with its event; the caller inserts it."""
    session, choices = change.session, list(ask.choices)
    content = {"operation_id": call.operation_id, "text": ask.text, "choices": choices}
    question = Question(
        id=ids.new_id(),
        tenant_id=call.tenant_id,
        session=session,
        call=call,
        agent=session.agent,
        task=session.task,
        requester=session.requester,
        requester_name=session.requester_name,
        text=ask.text,
        choices=choices or None,
        digest=canonical.digest({"tenant": str(call.tenant_id), **content}),
        state="pending",
        created_at=change.now,
        expires_at=change.now + timedelta(seconds=ask.expires_in or DEFAULT_ANSWER_SECONDS),
    )
    change.event(
        "question.asked",
        call=call,
        question=str(question.id),
        digest=question.digest.hex(),
        expires_at=question.expires_at.isoformat(),
    )
    return question


def answer(
    session: UUID, tenant: UUID, question_id: UUID, text: str, digest: bytes, actor: Actor
) -> Answered | Conflict:
    """Record one answer to exactly what the person saw. One is effective; everybody else gets a Conflict naming it.

    The call is completed with the answer as its result. When nobody else of its round is waited for, the round goes on
    and a worker is woken.
    """
    with transition(session, tenant=tenant) as change:
        question = _find(change, question_id)
        if question.state != "pending":
            return _too_late(question, text, digest, actor)
        work, call = _open_call(change, question)
        if question.expires_at <= change.now:
            _close_expired(change, question, call, tried_by=actor.subject, tried_by_name=actor.name)
            go_on(change, work)
            return QuestionExpired(f"The time to answer ended at {_at(question.expires_at)}. The agent was told so.")
        if digest != question.digest:
            return DigestMismatch("The digest is not that of the question. Answer from the page or the API's record.")
        change.move(question, "answered", answer=text, answered_by=actor.subject, answered_by_name=actor.name)
        change.move(call, "completed", result=_result(text, actor))
        change.event(
            "question.answered",
            call=call,
            question=str(question.id),
            by=actor.subject,
            by_name=actor.name,
            source=actor.source,
            roles=list(actor.roles),
            digest=question.digest.hex(),
            answer_digest=canonical.digest(text).hex(),
        )
        go_on(change, work)
    return Answered(question, replay=False)


def expire(session: UUID, question_id: UUID) -> bool:
    """Expire a question whose time is over. Time is never an answer. False: not due."""
    with transition(session) as change:
        question = _find(change, question_id)
        if question.state != "pending" or question.expires_at > change.now:
            return False
        work, call = _open_call(change, question)
        _close_expired(change, question, call)
        go_on(change, work)
    return True


def _result(text: str, actor: Actor) -> dict[str, Any]:
    """What the model gets: the words themselves, and who said them."""
    said = {"answer": text, "answered_by": actor.name}
    return results.call_result("completed", executed=True, content=text, structured=said)


def _close_expired(change: Change, question: Question, call: ToolCall, **payload: str) -> None:
    said = f"Nobody answered until {_at(question.expires_at)}. Go on without the answer, or ask again."
    change.move(question, "expired")
    change.move(call, "expired", result=results.call_result("expired", executed=False, reason=said))
    change.event("question.expired", call=call, question=str(question.id), **payload)


def _find(change: Change, question_id: UUID) -> Question:
    question = Question.objects.filter(session=change.session, pk=question_id).first()
    if question is None:
        raise NotFound("There is no such question.")
    return question


def _open_call(change: Change, question: Question) -> tuple[OpenRound, ToolCall]:
    """The round that waits for a pending question, and its call there."""
    work = load_round(change.session.id)
    if work is None:
        raise RuntimeError(f"Question {question.id} is pending in a session without an open round.")
    return work, next(call for call in work.calls if call.id == question.call_id)


def _too_late(question: Question, text: str, digest: bytes, actor: Actor) -> Answered | Conflict:
    if question.state == "expired":
        return QuestionExpired(f"The time to answer ended at {_at(question.expires_at)}. The agent was told so.")
    if question.state != "answered" or question.closed_at is None:
        return Conflict(f"This question is {question.state}: it was withdrawn with its session's round.")
    if (question.answered_by, question.answer, bytes(question.digest)) == (actor.subject, text, digest):
        return Answered(question, replay=True)
    winner = {"by": question.answered_by_name, "answer": question.answer, "at": question.closed_at.isoformat()}
    return AlreadyDecided(
        f"Already answered by {question.answered_by_name} at {_at(question.closed_at)}.", winner=winner
    )


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
