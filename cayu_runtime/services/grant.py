"""Standing grants: an approver lets calls of one tool in a range pass for a time, and takes that back (docs/grants.md).

What they say of calls is carried out in `core/grants`; what happened to the grant stands on the tenant's audit chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from .. import authority, registry
from ..contracts import Actor, Agent, Tool
from ..core import canonical, clock, ids, results, secrets
from ..core.grant_rules import EACH, check_rules
from ..core.writers import turn
from ..errors import Conflict, InvalidRequest
from ..models import Grant, Tenant
from ..policies.schema import cannot_hold
from ..selectors.grant import find_grant
from .audit import audited

DEFAULT_TIME = timedelta(days=1)
MAX_TIME = timedelta(days=30)
MIN_TIME = timedelta(minutes=1)
DEFAULT_USES = 10
MAX_USES = 1000
MAX_TOLD = 4 * 1024  # of the rules, on the audit chain


def make_grant(
    tenant: Tenant,
    actor: Actor,
    *,
    tool: str,
    rules: Mapping[str, Any] | str,
    reason: str,
    agent: str = "",
    lasts: timedelta = DEFAULT_TIME,
    max_uses: int = DEFAULT_USES,
) -> Grant:
    """Let calls of this tool, in its present version, pass without a further approval while their arguments lie within
    `rules` (an object, or its JSON text), for `lasts` and at most `max_uses` times. Empty `agent` means every agent.

    Raises NotPermitted, or InvalidRequest with what to change.
    """
    grant = Grant(id=ids.new_id(), tenant=tenant, tool=tool, agent=agent)
    authority.require(actor, "make_grant", grant)
    grant.rules = check_rules(_parsed(rules))
    grant.reason = results.clean_text(reason, 500)
    if not grant.reason:
        raise InvalidRequest("Say why calls may pass without a person: it stays on record.")
    if not MIN_TIME <= lasts <= MAX_TIME:
        raise InvalidRequest(f"A grant lasts from one minute to {MAX_TIME.days} days.")
    if isinstance(max_uses, bool) or not 1 <= max_uses <= MAX_USES:
        raise InvalidRequest(f"A grant may be used from 1 to {MAX_USES} times.")
    grant.max_uses = max_uses
    grant.tool_version = _check_tool(tool, agent, grant.rules)
    grant.made_by, grant.made_by_name = actor.subject, actor.name
    with audited(tenant.pk) as trail:
        grant.made_at, grant.expires_at = trail.now, trail.now + lasts
        grant.save(force_insert=True)
        trail.record(
            "grant.made",
            actor,
            grant=str(grant.pk),
            tool=grant.tool,
            tool_version=grant.tool_version,
            agent=grant.agent,
            rules=grant.rules if canonical.size_of(grant.rules) <= MAX_TOLD else "(long)",
            rules_digest=canonical.digest(grant.rules).hex(),
            expires_at=grant.expires_at.isoformat(),
            max_uses=grant.max_uses,
            reason=grant.reason,
        )
    return grant


def revoke_grant(tenant: Tenant, actor: Actor, grant_id: UUID, *, reason: str) -> Grant:
    """Take a grant back. When this returns, no further call passes or begins under it; what has begun goes on.

    Raises NotFound, NotPermitted, InvalidRequest without a reason, Conflict when it was taken back before.
    """
    grant = find_grant(tenant, grant_id)
    authority.require(actor, "revoke_grant", grant)
    said = results.clean_text(reason, 500)
    if not said:
        raise InvalidRequest("Say why the grant is taken back: it stays on record.")
    with turn(), transaction.atomic():
        # The grant before the tenant: a session whose call passes may take both, in this order.
        taken = Grant.objects.filter(pk=grant.pk, revoked_at=None).update(
            revoked_at=clock.now(), revoked_by=actor.subject, revoked_by_name=actor.name, revoke_reason=said
        )
        if taken:
            named = {"grant": str(grant.pk), "tool": grant.tool, "agent": grant.agent}
            with audited(tenant.pk) as trail:
                trail.record("grant.revoked", actor, **named, reason=said)
    grant.refresh_from_db()
    if not taken:
        raise Conflict(f"This grant was taken back already, by {grant.revoked_by_name}.")
    return grant


def grantable_tools() -> dict[str, list[Tool]]:
    """Every tool that an agent here has and that a person may be asked about, by name, each of its declarations."""
    found: dict[str, list[Tool]] = {}
    for agent in registry.agents().values():
        for tool in agent.tools:
            if not tool.spec.asks:
                found.setdefault(tool.spec.name, []).append(tool)
    return found


def _parsed(rules: Mapping[str, Any] | str) -> Any:
    if not isinstance(rules, str):
        return rules
    try:
        return canonical.parse(rules)
    except canonical.NotCanonical as error:
        raise InvalidRequest(f"The rules can't be read: {error}") from None


def _check_tool(name: str, agent: str, rules: Mapping[str, Any]) -> str:
    """The version of the tool, once it is known, and each rule is about one of its arguments that is no secret."""
    tools = _of_agent(registry.find_agent(agent), name, agent) if agent else grantable_tools().get(name, [])
    if not tools:
        known = ", ".join(sorted(grantable_tools())) or "none"
        raise InvalidRequest(f"There is no tool {name!r:.80} to grant. The tools are: {known}.")
    versions = {tool.spec.version for tool in tools}
    if len(versions) > 1:
        raise InvalidRequest(f"Agents have different versions of the tool {name!r}. Name the agent that is meant.")
    for path in rules:
        for tool in tools:
            if cannot_hold(tool.schema, path):
                arguments = ", ".join(sorted(tool.schema.get("properties", ()))) or "none"
                raise InvalidRequest(f"The tool {name!r} has no argument {path!r}. The arguments are: {arguments}.")
            if _reaches_secret(tool, path):
                raise InvalidRequest(
                    f"The argument {path!r} holds a secret. A call that carries one always waits for a person."
                )
    return versions.pop()


def _of_agent(agent: Agent | None, name: str, asked: str) -> list[Tool]:
    if agent is None:
        raise InvalidRequest(f"There is no agent {asked!r:.80}. Leave it out to mean every agent.")
    return [tool for tool in agent.tools if tool.spec.name == name and not tool.spec.asks]


def _reaches_secret(tool: Tool, path: str) -> bool:
    """Whether a secret field stands at a path or below it: something is put there, and looked for."""
    probe: Any = ""
    for step in reversed(path.split(".")):
        probe = [probe] if step == EACH else {step: probe}
    found: list[str] = []
    if tool.takes_secrets:
        secrets.at_secrets(tool, probe, lambda where, part: found.append(where))
    return bool(found)
