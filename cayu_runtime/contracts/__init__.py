"""Plain-Python contracts between the runtime and what plugs into it. Public import path: `cayu_runtime`."""

from .agent import Agent, Limits
from .agreement import Agreement, Stage
from .authority import Actor, Authority, Permit, Refusal
from .effect import EffectNotPerformed, Receipt, ToolEffect
from .journal import Disposition, JournalEvidence, JournalReconciler
from .policy import (
    Guard,
    PolicyDecision,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    Reviewed,
    ToolPolicy,
)
from .provider import Call, ModelError, Outcome, Provider, Reply, Rule, TextHint, Turn
from .question import Ask
from .reconciler import Finding, Inquiry, Observation, Reconciler, Verdict, Verification, Verifier
from .secret import EnvironmentSecrets, Secret, SecretResolver, SecretUnavailable, SecretValue
from .tool import (
    Discreet,
    FunctionTool,
    InvalidArguments,
    MissingResource,
    Tool,
    ToolContext,
    ToolResult,
    ToolSpec,
    tool,
)

__all__ = [
    "Actor",
    "Agent",
    "Agreement",
    "Ask",
    "Authority",
    "Call",
    "Discreet",
    "Disposition",
    "EffectNotPerformed",
    "EnvironmentSecrets",
    "Finding",
    "FunctionTool",
    "Guard",
    "Inquiry",
    "InvalidArguments",
    "JournalEvidence",
    "JournalReconciler",
    "Limits",
    "MissingResource",
    "ModelError",
    "Observation",
    "Outcome",
    "Permit",
    "PolicyDecision",
    "PolicyIdentity",
    "PolicyRequest",
    "PolicyResult",
    "Provider",
    "Receipt",
    "Reconciler",
    "Refusal",
    "Reply",
    "Reviewed",
    "Rule",
    "Secret",
    "SecretResolver",
    "SecretUnavailable",
    "SecretValue",
    "Stage",
    "TextHint",
    "Tool",
    "ToolContext",
    "ToolEffect",
    "ToolPolicy",
    "ToolResult",
    "ToolSpec",
    "Turn",
    "Verdict",
    "Verification",
    "Verifier",
    "tool",
]
