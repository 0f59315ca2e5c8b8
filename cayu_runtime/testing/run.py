"""One session under test, as a test speaks of it. Everything is read from its rows when asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..contracts import Actor
from ..models import Approval, EffectRecord, Event, Question, Session, ToolCall
from ..selectors.session import events_of, messages_of

if TYPE_CHECKING:
    from .scene import Scene

PAGE = 500


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something that waits for a person: an `approval` or a `question`. It has no argument values.

    `version` and `digest` are those of the row when it was listed; a decision is made on exactly them.
    """

    kind: str
    id: UUID
    call_id: str
    tool: str
    verb: str
    four_eyes: bool
    expires_at: datetime
    version: int
    digest: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """How one call ended, as the model is told. `status` is its final state; `reason` says why it did not run."""

    tool: str
    call_id: str
    status: str
    executed: bool
    outcome_unknown: bool
    content: str
    reason: str
    structured: Any


class Run:
    """One session of a harness. Its methods that act return the run itself, so that they can be chained."""

    def __init__(self, harness: Scene, pk: UUID) -> None:
        self.harness = harness
        self.pk = pk

    @property
    def session(self) -> Session:
        """The row as it is now."""
        return Session.objects.get(pk=self.pk)

    @property
    def state(self) -> str:
        """`completed`, `failed`, `running`, `pending` (also while a back-off lasts); of an interrupted session what it
        waits for.
        """
        session = self.session
        return session.interruption or session.state

    def go(self) -> Run:
        """Run the session until it waits for somebody, or ends. Raises ScriptError, NetworkUsed."""
        self.harness.drive(self)
        return self

    def waiting(self) -> list[Waiting]:
        """What waits for a person, approvals first, in the order of the calls."""
        approvals = Approval.objects.filter(session=self.pk, state="pending").select_related("call")
        questions = Question.objects.filter(session=self.pk, state="pending").select_related("call")
        found = [
            Waiting(
                "approval", row.id, row.call.call_id, row.tool, row.verb, row.four_eyes, row.expires_at, row.version,
                bytes(row.intent_digest).hex(),
            )
            for row in approvals.order_by("call__round__position", "call__position")
        ]  # fmt: skip
        return found + [
            Waiting(
                "question", asked.id, asked.call.call_id, asked.call.tool, asked.call.verb, False, asked.expires_at, 1,
                bytes(asked.digest).hex(), asked.text,
            )
            for asked in questions.order_by("call__round__position", "call__position")
        ]  # fmt: skip

    def approve(self, waiting: Waiting | None = None, *, by: str | Actor = "bob", reason: str = "") -> Run:
        """Approve one approval, the only one if none is named. Raises what `decide_approval` raises."""
        self.harness.decide(self, waiting or self._only(), "approve", by, reason)
        return self

    def deny(self, waiting: Waiting | None = None, *, by: str | Actor = "bob", reason: str) -> Run:
        """Deny one approval, the only one if none is named. The agent is told the reason."""
        self.harness.decide(self, waiting or self._only(), "deny", by, reason)
        return self

    def answer(self, text: str, waiting: Waiting | None = None, *, by: str | Actor = "alice") -> Run:
        """Answer one question, the only one if none is named. Raises what `answer_question` raises."""
        self.harness.answer(self, waiting or self._only("question"), text, by)
        return self

    def _only(self, kind: str = "approval") -> Waiting:
        found = [waiting for waiting in self.waiting() if waiting.kind == kind]
        if len(found) != 1:
            names = ", ".join(waiting.tool for waiting in found) or "none"
            raise AssertionError(f"Say which {kind}: {len(found)} wait ({names}); the session is {self.state}.")
        return found[0]

    def transcript(self) -> list[Any]:
        """All messages, in order, in the model library's serialised form."""
        found: list[Any] = []
        before: int | None = None
        while page := messages_of(self.session, before, PAGE):
            found = [message.body for message in page] + found
            before = page[0].position
        return found

    def text(self) -> str:
        """What the last message of the transcript says."""
        return "".join(str(part.get("content", "")) for part in self.transcript()[-1]["parts"])

    def calls(self) -> list[ToolCall]:
        """The rows of all calls, in the model's order."""
        rows = ToolCall.objects.filter(session=self.pk).select_related("round")
        return list(rows.order_by("round__position", "position"))

    def results(self) -> list[Result]:
        """The results of the calls that have ended, in the model's order."""
        return [
            Result(
                call.tool, call.call_id, call.state, call.result["executed"], call.result["outcome_unknown"],
                call.result["content"], call.result.get("reason", ""), call.result.get("structured"),
            )
            for call in self.calls()
            if call.result is not None
        ]  # fmt: skip

    def effects(self) -> list[EffectRecord]:
        """The ledger's entries of this session, in the model's order."""
        rows = EffectRecord.objects.filter(session=self.pk)
        return list(rows.order_by("call__round__position", "call__position"))

    def events(self) -> list[Event]:
        """Everything that happened, in order."""
        found: list[Event] = []
        while page := events_of(self.session, found[-1].seq if found else 0, PAGE):
            found += page
        return found
