"""What is decided about each proposed call before anything of its round runs: validity, then policy (DESIGN §5, §8).

Runs outside any transaction. A policy that raises, answers nonsense or sets no usable deadline denies.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jsonschema_rs

from ..contracts import (
    Agent,
    Agreement,
    Ask,
    Discreet,
    FunctionTool,
    InvalidArguments,
    PolicyDecision,
    PolicyIdentity,
    PolicyRequest,
    PolicyResult,
    Reviewed,
    Tool,
    ToolEffect,
)
from ..models import Approval, Session, ToolCall
from . import asking, canonical, declared, secrets
from .canonical import NotCanonical

DEFAULT_APPROVAL_SECONDS = 7 * 86400.0
MAX_APPROVAL_SECONDS = 30 * 86400.0
MIN_APPROVAL_SECONDS = 0.001
POLICY_SECONDS = 30.0
NO_POLICY = PolicyIdentity("effect class", "1", {})
VALIDATION = PolicyIdentity("validation", "1", {})
EXACT = "At most 1 MiB and 64 levels, each key once in its object, no half characters, no integers of 2^53 and more."


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call as a model or a client asked for it. `arguments` is JSON text or a JSON object."""

    call_id: str
    tool: str
    arguments: str | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A proposed call with its effective arguments and the decision about it.

    `problem`: it is invalid, and why. `reviewed`: the recorded proposal that the policy compared it with. `raw` holds
    the texts of its arguments that may not be stored anywhere, if it brought a secret's value. `masked`: `arguments` is
    what may be stored of those that were refused, and the model's message keeps no more of them either. `ask`: what a
    person is asked in place of a run. `mandatory`: no standing grant lets it pass.
    """

    proposed: ProposedCall
    tool: Tool | None
    arguments: Any
    decision: PolicyDecision
    reason: str
    policy: PolicyIdentity
    expires_in: float = DEFAULT_APPROVAL_SECONDS
    four_eyes: bool = True
    problem: str = ""
    reviewed: Reviewed | None = None
    editable: bool = False
    agreement: Agreement | None = None
    raw: frozenset[str] = frozenset()
    masked: bool = False
    ask: Ask | None = None
    mandatory: bool = False

    @property
    def effect(self) -> ToolEffect:
        return self.tool.spec.effect if self.tool else ToolEffect.NONE


def judge(agent: Agent, session: Session, proposed: ProposedCall) -> JudgedCall:
    """Validate one call and ask the agent's policy about it."""
    tool = next((t for t in agent.tools if t.spec.name == proposed.tool), None)
    try:
        if tool is None:
            known = ", ".join(t.spec.name for t in agent.tools) or "none"
            raise InvalidArguments(f"There is no tool {proposed.tool!r}. The tools are: {known}.")
        arguments = effective_arguments(tool, proposed.arguments)
        ask = asking.asked(tool, arguments) if tool.spec.asks else None
    except (InvalidArguments, NotCanonical) as error:
        return _invalid(agent, tool, proposed, str(error))
    except Exception as error:  # the tool's own schema or validators failed, not what was proposed
        return _invalid(agent, tool, proposed, f"The tool could not read these arguments ({type(error).__name__}).")
    identity, answer = ask_policy(agent, session, tool, arguments)
    four_eyes = answer.four_eyes if answer.four_eyes is not None else tool.spec.effect is ToolEffect.EXTERNAL
    return JudgedCall(
        proposed,
        tool,
        arguments,
        answer.decision,
        answer.reason,
        identity,
        expires_in=answer.expires_in or DEFAULT_APPROVAL_SECONDS,
        four_eyes=four_eyes,
        reviewed=answer.reviewed,
        editable=answer.editable and answer.reviewed is None,
        agreement=answer.agreement,
        ask=ask,
        mandatory=answer.mandatory,
    )


def effective_arguments(tool: Tool, raw: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments that are reviewed, digested and run: parsed, bounded, coerced or defaulted, valid.

    Raises InvalidArguments or NotCanonical; for a tool that takes secrets only Discreet, so that no value is told.
    """
    if not tool.takes_secrets:
        return _effective(tool, raw)
    try:
        return _effective(tool, raw)
    except Discreet:
        raise
    except NotCanonical:
        raise Discreet(f"The arguments are no exact JSON. {EXACT}") from None
    except InvalidArguments:
        raise Discreet("The tool refuses these arguments. Its words are not kept, because it takes secrets.") from None


def _effective(tool: Tool, raw: str | Mapping[str, Any] | None) -> dict[str, Any]:
    value = canonical.parse(raw or "{}") if isinstance(raw, str | None) else raw
    if not isinstance(value, Mapping):
        raise Discreet("The arguments must be one JSON object.")
    given = canonical.exact(value)
    takes_secrets = tool.takes_secrets
    if takes_secrets:
        secrets.refuse_raw(tool, given)
        declared.refuse_others(tool.schema, given)
    effective: dict[str, Any] = canonical.exact(tool.coerce(given))
    if takes_secrets:
        secrets.refuse_raw(tool, effective)
    if not isinstance(tool, FunctionTool):
        errors = list(_validator(tool).iter_errors(effective))[:5]
        if errors and takes_secrets:
            raise Discreet("; ".join(map(_without_names, errors)))
        if errors:
            raise InvalidArguments("; ".join(error.message for error in errors))
    return effective


def _without_names(error: Any) -> str:
    """What a validator that masks values says, unless it names what was given as a field."""
    if type(error.kind).__name__ in ("AdditionalProperties", "PropertyNames", "UnevaluatedProperties"):
        return "A field has a name that is not allowed."
    return str(error.message)


_validators: dict[int, tuple[Tool, Any]] = {}


def _validator(tool: Tool) -> Any:
    kept = _validators.get(id(tool))
    if kept is None:
        mask = "The value" if tool.takes_secrets else None
        made = jsonschema_rs.validator_for(dict(secrets.schema_of(tool)), retriever=_no_retrieval, mask=mask)
        kept = _validators[id(tool)] = (tool, made)
    return kept[1]


def _no_retrieval(uri: str) -> Any:
    raise ValueError(f"A schema can't refer to {uri}: nothing is fetched.")


def _invalid(agent: Agent, tool: Tool | None, proposed: ProposedCall, problem: str) -> JudgedCall:
    raw = proposed.arguments
    if any(t.takes_secrets for t in ([tool] if tool else agent.tools)):  # one of them may have been meant
        kept, texts = secrets.without_raw(tool, raw)
        return JudgedCall(
            proposed, tool, kept, PolicyDecision.DENY, "", VALIDATION, problem=problem, raw=texts, masked=True
        )
    shown = canonical.storable(raw if isinstance(raw, Mapping) else {"$raw": canonical.bounded(str(raw), 4096)})
    if canonical.size_of(shown) > canonical.MAX_BYTES:
        shown = {"$raw": canonical.bounded(str(raw), 4096)}
    return JudgedCall(proposed, tool, shown, PolicyDecision.DENY, "", VALIDATION, problem=problem)


def identity_of(agent: Agent) -> PolicyIdentity:
    """Which policy judges this agent's calls. One that can't say so is nobody's."""
    if agent.policy is None:
        return NO_POLICY
    try:
        identity = agent.policy.identity
    except Exception:
        return PolicyIdentity(type(agent.policy).__name__, "?", {})
    return identity


@dataclass(frozen=True, slots=True)
class Registered:
    """What a process knows of an agent's tools and policy; rows are compared with it inside a transaction."""

    tools: Mapping[str, tuple[str, str, bytes]]
    policy: bytes

    def fits(self, call: ToolCall) -> bool:
        """Whether the call was judged by just these: version, effect class and schema of its tool, and the policy."""
        judged = (call.tool_version, call.effect_class, call.schema_digest)
        return self.tools.get(call.tool) == judged and self.policy == call.policy_digest


def registered(agent: Agent, tools: Iterable[Tool] | None = None) -> Registered:
    """Of all tools of an agent, or of these."""
    listed = agent.tools if tools is None else tools
    known = {t.spec.name: (t.spec.version, t.spec.effect.value, schema_digest(t)) for t in listed}
    return Registered(known, policy_digest(identity_of(agent)))


def tool_for(agent: Agent, call: ToolCall) -> Tool | None:
    """The registered tool of a call, if it and the policy are those that the call was judged by.

    Same version, schema and effect class; same name, version and parameters of the policy.
    """
    tool = next((t for t in agent.tools if t.spec.name == call.tool), None)
    return tool if tool is not None and registered(agent, [tool]).fits(call) else None


def refusal_of(agent: Agent, session: Session, tool: Tool, call: ToolCall, approval: Approval | None) -> str:
    """Why the policy would not let this call begin now, empty if it would. Before a dispatch a policy only narrows."""
    _, answer = ask_policy(agent, session, tool, call.arguments)
    if answer.decision is PolicyDecision.DENY:
        return answer.reason or "The policy denies this by now."
    if answer.decision is PolicyDecision.REQUIRE_APPROVAL and call.decision != PolicyDecision.REQUIRE_APPROVAL:
        return "The policy asks for an approval by now, and nobody was asked. Propose it again."
    wanted = answer.agreement.parameters if answer.agreement is not None else None
    if approval is not None and wanted is not None and wanted != approval.agreement:
        return "The policy asks other people by now than those who agreed. Propose it again."
    if approval is not None and approval.grant_id is not None and (answer.mandatory or answer.reviewed is not None):
        return "The policy wants a person to see this by now, and only a standing grant did. Propose it again."
    return ""


def ask_policy(
    agent: Agent, session: Session, tool: Tool, arguments: dict[str, Any]
) -> tuple[PolicyIdentity, PolicyResult]:
    """The policy's identity, and its answer about a call with these arguments; what fails or is unsound denies."""
    if agent.policy is None:
        allowed = tool.spec.effect is ToolEffect.NONE
        decision = PolicyDecision.ALLOW if allowed else PolicyDecision.REQUIRE_APPROVAL
        reason = "" if allowed else f"No policy decides: {tool.spec.effect.value} effects need a person."
        return NO_POLICY, PolicyResult(decision, reason)
    try:
        identity = agent.policy.identity
        if not isinstance(identity, PolicyIdentity) or {type(identity.name), type(identity.version)} != {str}:
            raise TypeError("A policy's identity is a PolicyIdentity with a name and a version.")
        request = PolicyRequest(
            tenant=str(session.tenant_id),
            session_id=session.session_id,
            agent=agent.name,
            tool=tool.spec.name,
            tool_version=tool.spec.version,
            effect=tool.spec.effect,
            arguments=copy.deepcopy(arguments),
            requester=session.requester,
            agent_version=agent.version,
            environment=agent.environment,
        )
        answer = agent.policy.authorize(request)
        if inspect.isawaitable(answer):
            answer = _waited(answer)
        return identity, _checked(answer)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        identity = PolicyIdentity(type(agent.policy).__name__, "?", {})
        return identity, _denied(f"The policy failed ({type(error).__name__}); a failed policy denies.")


def _waited(answer: Any) -> Any:
    """What an async policy answers. A thread that has an event loop already lets another one wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_settled(answer))
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _settled(answer)).result()


async def _settled(answer: Any) -> Any:
    return await asyncio.wait_for(answer, POLICY_SECONDS)


def _checked(answer: Any) -> PolicyResult:
    if not isinstance(answer, PolicyResult) or not isinstance(answer.decision, PolicyDecision):
        return _denied("The policy gave no valid answer; that denies.")
    kinds = (
        (answer.reason, str),
        (answer.four_eyes, bool | None),
        (answer.editable, bool),
        (answer.agreement, Agreement | None),
        (answer.mandatory, bool),
    )
    if not all(isinstance(value, kind) for value, kind in kinds):
        return _denied("The policy's answer has a reason, four_eyes or another field of a wrong type; that denies.")
    if not _is_reviewed(answer.reviewed):
        return _denied("The policy's answer names its proposal wrongly; that denies.")
    seconds = answer.expires_in
    if seconds is None:
        return answer
    if (
        not isinstance(seconds, (int, float))
        or isinstance(seconds, bool)
        or not math.isfinite(seconds)
        or seconds < MIN_APPROVAL_SECONDS
    ):
        return _denied(f"The policy set no usable time limit ({seconds!r}); that denies.")
    limit = min(float(seconds), MAX_APPROVAL_SECONDS)
    return replace(answer, expires_in=limit)


def _is_reviewed(reviewed: Any) -> bool:
    if reviewed is None:
        return True
    return isinstance(reviewed, Reviewed) and {type(reviewed.action_id), type(reviewed.digest)} == {str}


def _denied(reason: str) -> PolicyResult:
    return PolicyResult(PolicyDecision.DENY, reason)


@lru_cache(maxsize=256)
def _parameters_digest(name: str, version: str, parameters: bytes) -> bytes:
    return canonical.digest({"name": name, "version": version, "parameters": parameters.hex()})


def policy_digest(identity: PolicyIdentity) -> bytes:
    """What identifies a policy in an approval: name, version and parameters."""
    parameters = canonical.canonical(canonical.storable(identity.parameters))
    return _parameters_digest(identity.name, identity.version, parameters)


def schema_digest(tool: Tool | None) -> bytes:
    if tool is None:
        return bytes(32)
    kept = _schema_digests.get(id(tool))
    if kept is None:
        kept = _schema_digests[id(tool)] = (tool, canonical.digest(canonical.storable(secrets.schema_of(tool))))
    return kept[1]


_schema_digests: dict[int, tuple[Tool, bytes]] = {}


def target_of(tool: Tool | None, arguments: Any) -> str:
    """The value of the tool's target argument, for people to read; empty when it has none."""
    if tool is None or not tool.spec.target or not isinstance(arguments, Mapping):
        return ""
    value = arguments.get(tool.spec.target, "")
    return canonical.bounded(canonical.storable_key(value if isinstance(value, str) else str(value)), 200)


def identifying(tool: Tool | None, arguments: Any, *, reviewed: bool = False) -> Any:
    """The arguments that say what is done: those that the tool names, else all. Another `action_id` of a reviewed
    action is no other action.
    """
    if not isinstance(arguments, Mapping):
        return arguments
    named = tool.spec.identified_by if tool is not None else ()
    said = {name: arguments[name] for name in named if name in arguments} if named else dict(arguments)
    if reviewed:
        said.pop("action_id", None)
    return said


def action_digests(
    tenant: Any, tool: str, version: str, effect: str, arguments: Any, target: str, operation: str, identity: Any = None
) -> tuple[bytes, bytes]:
    """(action_digest, intent_digest): what is the same action, and what exactly is authorised (DESIGN §5).

    The intent is everything: version, all arguments, the operation. The action is what is done, by the arguments that
    identify it (`identity`, else all): a new version of the tool or another wording does not make it another one.
    """
    done = {"tenant": str(tenant), "tool": tool, "effect": effect, "target": target}
    action = {**done, "arguments": arguments if identity is None else identity}
    intent = {**done, "tool_version": version, "arguments": arguments, "operation_id": operation}
    return canonical.digest(action), canonical.digest(intent)
