from __future__ import annotations

import uuid

from .. import authority
from ..contracts import Actor
from ..contracts.question import MAX_ANSWER
from ..core import questions
from ..core.questions import Answered
from ..core.results import visible
from ..core.statements import find
from ..errors import Conflict, InvalidRequest, NotFound
from ..models import Question, Tenant


def answer_question(tenant: Tenant, actor: Actor, question_id: uuid.UUID, *, answer: str, digest: str) -> Answered:
    """Record a person's answer to exactly the question they saw (`digest`, hex), once; the agent goes on with it.

    Where the question has choices, `answer` is one of them as it stands there. The same answer of the same person again
    returns the recorded one (`replay`). Raises NotFound, NotPermitted, InvalidRequest, or a Conflict: AlreadyDecided
    (names the winner), DigestMismatch, QuestionExpired, or one that says that the question was withdrawn.
    """
    question = find(Question, id=question_id, tenant=tenant)
    if question is None:
        raise NotFound("There is no such question.")
    authority.require(actor, "answer", question)
    text, seen = _checked(question, answer), _digest(digest)
    outcome = questions.answer(question.session_id, tenant.id, question.id, text, seen, actor)
    if isinstance(outcome, Conflict):
        raise outcome
    return outcome


def _checked(question: Question, answer: str) -> str:
    text = visible(answer)
    if not text:
        raise InvalidRequest(
            "Choose one of the answers." if question.choices else "Write an answer; this one is empty."
        )
    if len(text) > MAX_ANSWER:
        raise InvalidRequest(f"The answer has {len(text)} characters; at most {MAX_ANSWER} are accepted.")
    if question.choices and text not in question.choices:
        raise InvalidRequest(f"Answer with one of the choices: {'; '.join(question.choices)}.")
    return text


def _digest(digest: str) -> bytes:
    try:
        seen = bytes.fromhex(digest)
    except ValueError:
        raise InvalidRequest("The digest is not hexadecimal. Send the one that stands on the question.") from None
    if len(seen) != 32:
        raise InvalidRequest("The digest must be the question's 64 hexadecimal digits.")
    return seen
