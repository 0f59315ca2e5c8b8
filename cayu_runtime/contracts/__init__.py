"""Plain-Python contracts between the runtime and what plugs into it. Public import path: `cayu_runtime`."""

from .agent import Agent, Limits
from .authority import Actor, Authority, Permit, Refusal
from .effect import EffectNotPerformed, Receipt, ToolEffect
from .policy import PolicyDecision, PolicyIdentity, PolicyRequest, PolicyResult, ToolPolicy
from .provider import Call, Outcome, Provider, Reply, Rule, Turn
from .tool import FunctionTool, InvalidArguments, MissingResource, Tool, ToolContext, ToolResult, ToolSpec, tool

__all__ = [
    "Actor",
    "Agent",
    "Authority",
    "Call",
    "EffectNotPerformed",
    "FunctionTool",
    "InvalidArguments",
    "Limits",
    "MissingResource",
    "Outcome",
    "Permit",
    "PolicyDecision",
    "PolicyIdentity",
    "PolicyRequest",
    "PolicyResult",
    "Provider",
    "Receipt",
    "Refusal",
    "Reply",
    "Rule",
    "Tool",
    "ToolContext",
    "ToolEffect",
    "ToolPolicy",
    "ToolResult",
    "ToolSpec",
    "Turn",
    "tool",
]
