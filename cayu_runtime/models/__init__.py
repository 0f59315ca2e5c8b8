"""The tables. Every row has a tenant; states and their evidence are tied by CHECK constraints (DESIGN §2, §3)."""

from .approval import Approval, Decision
from .attachment import Attachment
from .attempt import Attempt
from .audit import AuditEntry
from .call import ToolCall
from .effect import EffectRecord
from .event import Event
from .grant import Grant
from .idempotency import IdempotencyKey
from .message import Message
from .pause import DispatchPause
from .proposal import Proposal
from .quarantine import Quarantine
from .question import Question
from .round import ToolRound
from .session import Session
from .tenant import Tenant
from .worker import Worker

__all__ = [
    "Approval",
    "Attachment",
    "Attempt",
    "AuditEntry",
    "Decision",
    "DispatchPause",
    "EffectRecord",
    "Event",
    "Grant",
    "IdempotencyKey",
    "Message",
    "Proposal",
    "Quarantine",
    "Question",
    "Session",
    "Tenant",
    "ToolCall",
    "ToolRound",
    "Worker",
]
